"""Table 1 of the paper at small scale: the full method.

Each other config of this folder is this one without one ingredient. Views and settings
are the demo's, which learns in minutes. Three of them are not the paper's, for the
reasons in ``configs/tiny/bam_resnet_32px.py``: batch norm in the projector beside a
teacher, tau_B 0.03 and a shorter average.
"""

_base_ = '../bam-teacher.py'

method = dict(
    title='full method',
    own='tau 0.1, tau_B 0.03, 3 iterations of balancing, average from 0.98, batch norm '
    'in the projector',
)
model = dict(
    neck=dict(norm_cfg=dict(type='BN1d')),
    head=dict(loss=dict(tau_b=0.03)),
    teacher=dict(momentum='=momentum(0.98)'),
)
train_pipeline = [
    dict(
        type='mmbam.MultiCrop',
        # Larger areas than ImageNet's, which would leave little of a small image.
        views=[
            dict(
                size='=size',
                area=(0.5, 1.0),
                blur=1.0,
                sigma='=(0.1, max(0.2, 4 * size / 224))',
            ),
            dict(
                size='=size',
                area=(0.5, 1.0),
                blur=0.1,
                sigma='=(0.1, max(0.2, 4 * size / 224))',
            ),
            dict(
                num='=local_views',
                size='=local_size',
                area=(0.2, 0.5),
                blur=0.5,
                sigma='=(0.1, max(0.2, 2 * size / 224))',
            ),
        ],
    )
]
custom_hooks = [
    dict(
        type='mmbam.LocalizeHook',
        # App. G, as shares of Table 1's 150 epochs: from epoch 40 on, every 20.
        start_epoch='=round(epochs * 40 / 150)',
        interval='=max(1, round(epochs * 20 / 150))',
        image_size='=size',
        num_workers=0,
    )
]
# About 100 points of every curve.
default_hooks = dict(logger=dict(type='LoggerHook', interval='=max(1, steps // 100)'))
