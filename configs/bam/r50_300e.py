_base_ = [
    '../_base_/datasets/imagenet_2x224_6x96.py',
    '../_base_/schedules/lars_300e.py',
    '../_base_/default_runtime.py',
]

model = dict(
    type='mmbam.BAM',
    backbone=dict(type='ResNet', depth=50, norm_cfg=dict(type='BN')),
    neck=dict(
        type='mmbam.BAMNeck',
        in_channels=2048,
        hid_channels=4096,
        out_channels=4096,
        num_layers=3,
        act_cfg=dict(type='ReLU'),  # App. C
    ),
    # The published collapse threshold of tau_b is 0.075 for ResNet (App. F).
    head=dict(type='mmbam.BAMHead', loss=dict(type='mmbam.BAMLoss', num_views=8)),
    # The paper does not say whether its ResNet had a teacher; its full method has one.
    teacher=dict(type='mmbam.EMATeacher', momentum=0.995, end_momentum=1.0),
    channels_last=True,
)
