"""BAM with a tiny ResNet on the made world: minutes on a CPU."""

_base_ = [
    '../_base_/datasets/world_2x32_4x16.py',
    '../_base_/schedules/adamw_tiny.py',
    '../_base_/default_runtime.py',
]

model = dict(
    type='mmbam.BAM',
    backbone=dict(
        type='ResNet',
        depth=18,
        stem_channels=32,
        base_channels=32,
        num_stages=3,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(2,),
        # The run is too short for blocks that start as the identity.
        zero_init_residual=False,
    ),
    neck=dict(
        type='mmbam.BAMNeck',
        in_channels=128,
        hid_channels=512,
        out_channels=256,
        act_cfg=dict(type='ReLU'),
    ),
    head=dict(type='mmbam.BAMHead', loss=dict(type='mmbam.BAMLoss', num_views=6)),
    # 0.995 averages over more steps than this run has.
    teacher=dict(type='mmbam.EMATeacher', momentum=0.97, end_momentum=1.0),
)

# A run of a few hundred steps: log often, average over little.
default_hooks = dict(logger=dict(interval=5))
log_processor = dict(window_size=10)
