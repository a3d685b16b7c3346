"""BAM with a tiny ResNet on the made world: minutes on a CPU."""

_base_ = [
    '../_base_/datasets/world_2x32_4x16.py',
    '../_base_/schedules/adamw_tiny.py',
    '../_base_/default_runtime.py',
]

model = dict(
    type='mmbam.BAM',
    backbone=dict(
        # A stem of 3 x 3, because ImageNet's reduces 32 x 32 pixels to 8 x 8.
        type='ResNet_CIFAR',
        depth=18,
        stem_channels=16,
        base_channels=16,
        num_stages=3,
        strides=(2, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(2,),
        # Blocks that start as the identity need a longer run.
        zero_init_residual=False,
    ),
    neck=dict(
        type='mmbam.BAMNeck',
        in_channels=64,
        hid_channels=512,
        out_channels=256,
        act_cfg=dict(type='ReLU'),
        # Unlike the paper's projector with a teacher. Batch norm spreads the latents
        # from the first step on, which helps a run of a few hundred steps.
        norm_cfg=dict(type='BN1d'),
    ),
    # With the few targets of a small batch, B needs a lower temperature.
    head=dict(
        type='mmbam.BAMHead',
        loss=dict(type='mmbam.BAMLoss', num_views=6, tau_b=0.03),
    ),
    # The paper's 0.995 averages over too many steps for this run.
    teacher=dict(type='mmbam.EMATeacher', momentum=0.98, end_momentum=1.0),
    channels_last=True,
)

custom_hooks = [
    dict(type='mmbam.SeedByEpochHook'),
    dict(
        type='mmbam.KNNHook',
        train_dataset=dict(
            type='ImageNet',
            data_root=_base_.data_root,
            split='train',
            pipeline=_base_.test_pipeline,
        ),
        test_dataset=dict(
            type='ImageNet',
            data_root=_base_.data_root,
            split='val',
            pipeline=_base_.test_pipeline,
        ),
        interval=2,
        fraction=1.0,
        batch_size=200,
        num_workers=0,
    ),
    # Random crops for the first half of the run.
    dict(
        type='mmbam.LocalizeHook',
        start_epoch=14,
        interval=7,
        image_size=32,
        batch_size=200,
        num_workers=0,
    ),
]

# The run has a few hundred steps, so log often.
default_hooks = dict(logger=dict(interval=5))
log_processor = dict(window_size=10)
