"""Two views as in BAM's paper, the blur in proportion to the image size.

A method of ``mmbam compare`` without a ``train_pipeline`` gets this one. Loading
and packing of the images are added around it.
"""

train_pipeline = [
    dict(
        type='mmbam.MultiCrop',
        views=[
            dict(
                size='=size',
                area=(0.25, 1.0),
                blur=1.0,
                sigma='=(0.1, max(0.2, 2 * size / 224))',
            ),
            dict(
                size='=size',
                area=(0.25, 1.0),
                blur=0.1,
                sigma='=(0.1, max(0.2, 2 * size / 224))',
                solarize=0.2,
            ),
        ],
    )
]
