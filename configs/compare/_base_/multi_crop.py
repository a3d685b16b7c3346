"""Two views as in ``two_views.py``, and smaller crops."""

_base_ = 'two_views.py'

train_pipeline = [
    dict(
        type='mmbam.MultiCrop',
        views=[
            *_base_.train_pipeline[0].views,
            dict(
                num='=local_views',
                size='=local_size',
                # The paper's 0.05 to 0.25 is next to nothing of a small image.
                area='=(0.05, 0.25) if size > 64 else (0.15, 0.4)',
                blur=0.5,
                sigma='=(0.1, max(0.2, 2 * size / 224))',
            ),
        ],
    )
]
