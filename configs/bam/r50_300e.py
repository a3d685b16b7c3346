"""BAM with ResNet-50; 74.8 % top-1 of the linear probe in the paper (App. B)."""

_base_ = [
    '../_base_/datasets/imagenet_2x224_6x96.py',
    '../_base_/schedules/lars_300e.py',
    '../_base_/hooks/pretraining.py',
    '../_base_/default_runtime.py',
]

model = dict(
    type='mmbam.BAM',
    backbone=dict(type='ResNet', depth=50, norm_cfg=dict(type='BN')),
    neck=dict(
        type='mmbam.BAMNeck',
        in_channels=2048,
        hid_channels=4096,  # App. C
        out_channels=4096,  # App. C
        num_layers=3,  # App. C
        act_cfg=dict(type='ReLU'),  # App. C
    ),
    # The default tau_b is 0.05; training collapses with 0.075 (App. F).
    head=dict(type='mmbam.BAMHead', loss=dict(type='mmbam.BAMLoss', num_views=8)),
    # The paper does not say whether its ResNet has a teacher; its full method has one.
    teacher=dict(type='mmbam.EMATeacher', momentum=0.995, end_momentum=1.0),
    channels_last=True,
)
