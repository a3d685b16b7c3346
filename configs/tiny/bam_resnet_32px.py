"""BAM with a tiny ResNet on the made world: minutes on a CPU."""

_base_ = [
    '../_base_/datasets/world_2x32_4x16.py',
    '../_base_/schedules/adamw_tiny.py',
    '../_base_/default_runtime.py',
]

model = dict(
    type='mmbam.BAM',
    backbone=dict(
        # A stem of 3 x 3: that of ImageNet would leave 8 x 8 of 32 x 32 positions.
        type='ResNet_CIFAR',
        depth=18,
        stem_channels=16,
        base_channels=16,
        num_stages=3,
        strides=(2, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(2,),
        # The run is too short for blocks that start as the identity.
        zero_init_residual=False,
    ),
    neck=dict(
        type='mmbam.BAMNeck',
        in_channels=64,
        hid_channels=512,
        out_channels=256,
        act_cfg=dict(type='ReLU'),
        # The paper's projector has none beside a teacher. It spreads the latents from
        # the first step on, which a run of a few hundred steps cannot wait for.
        norm_cfg=dict(type='BN1d'),
    ),
    # A small batch has few targets: a lower temperature keeps B away from uniform.
    head=dict(
        type='mmbam.BAMHead',
        loss=dict(type='mmbam.BAMLoss', num_views=6, tau_b=0.03),
    ),
    # 0.995 averages over more steps than this run has.
    teacher=dict(type='mmbam.EMATeacher', momentum=0.98, end_momentum=1.0),
    channels_last=True,
)

# A run of a few hundred steps: log often, average over little.
default_hooks = dict(logger=dict(interval=5))
log_processor = dict(window_size=10)
