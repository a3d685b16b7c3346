"""BAM with four equal views of each image, without a teacher."""

_base_ = 'bam.py'

method = dict(title='BAM, 4 views')
train_pipeline = [
    dict(
        type='mmbam.MultiCrop',
        views=[
            dict(
                num=2,
                size='=size',
                area=(0.25, 1.0),
                blur=blur,
                sigma='=(0.1, max(0.2, 2 * size / 224))',
                solarize=solarize,
            )
            for blur, solarize in ((1.0, 0.0), (0.1, 0.2))
        ],
    )
]
