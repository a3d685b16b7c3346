"""The made world (tools/make_world.py): gray patches, as 2 global and 4 local views."""

data_root = 'data/world/imagenet'

# Gray images: one mean and one deviation, those of the training patches.
data_preprocessor = dict(
    type='SelfSupDataPreprocessor', mean=[124.0] * 3, std=[60.0] * 3, to_rgb=True
)

# Saturation, hue and gray do nothing to a gray image.
jitter = dict(strength=(0.4, 0.4, 0.0, 0.0), gray=0.0)
train_pipeline = [
    dict(type='mmbam.SeedBySample'),
    dict(type='LoadImageFromFile'),
    dict(
        type='mmbam.MultiCrop',
        # The paper's areas (0.25-1 and 0.05-0.25) and blur (up to 2 px) would leave
        # little of a patch of 32 px.
        views=[
            dict(size=32, area=(0.5, 1.0), blur=1.0, sigma=(0.1, 0.6), **jitter),
            dict(size=32, area=(0.5, 1.0), blur=0.1, sigma=(0.1, 0.6), **jitter),
            dict(num=4, size=16, area=(0.2, 0.5), blur=0.5, sigma=(0.1, 0.3), **jitter),
        ],
    ),
    dict(type='PackInputs'),
]
test_pipeline = [dict(type='LoadImageFromFile'), dict(type='PackInputs')]

train_dataloader = dict(
    batch_size=128,
    num_workers=1,
    persistent_workers=True,
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ImageNet', data_root=data_root, split='train', pipeline=train_pipeline
    ),
)

custom_hooks = [
    dict(type='mmbam.SeedByEpochHook'),
    dict(
        type='mmbam.KNNHook',
        train_dataset=dict(
            type='ImageNet', data_root=data_root, split='train', pipeline=test_pipeline
        ),
        test_dataset=dict(
            type='ImageNet', data_root=data_root, split='val', pipeline=test_pipeline
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
