"""ImageNet-1k without its labels, as 2 global and 6 local views of every image."""

data_preprocessor = dict(
    type='SelfSupDataPreprocessor',
    mean=[123.675, 116.28, 103.53],
    std=[58.395, 57.12, 57.375],
    to_rgb=True,
)

train_pipeline = [
    dict(type='mmbam.SeedBySample'),
    dict(type='mmbam.LoadImage'),
    dict(
        type='mmbam.MultiCrop',
        views=[
            dict(size=224, area=(0.25, 1.0), blur=1.0),
            dict(size=224, area=(0.25, 1.0), blur=0.1, solarize=0.2),
            dict(num=6, size=96, area=(0.05, 0.25), blur=0.5),
        ],
    ),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=256,  # x 16 GPUs = 4096
    num_workers=10,
    persistent_workers=True,
    pin_memory=True,
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ImageNet',
        data_root='data/imagenet',
        split='train',
        pipeline=train_pipeline,
    ),
)

custom_hooks = [
    dict(type='mmbam.SeedByEpochHook'),
    # App. G: random crops for 40 epochs, then boxes that are refreshed every 20.
    dict(type='mmbam.LocalizeHook', start_epoch=40, interval=20),
    # Health signs, and a checkpoint and a word of warning if features collapse.
    dict(type='mmbam.MonitorHook', interval=50, on_collapse='warn'),
]
