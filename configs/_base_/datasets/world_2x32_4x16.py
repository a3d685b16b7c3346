"""The made world (tools/make_world.py): grey patches, as 2 global and 4 local views."""

data_root = 'data/world/imagenet'

# Grey images: one mean and one deviation, those of the training patches.
data_preprocessor = dict(
    type='SelfSupDataPreprocessor', mean=[124.0] * 3, std=[60.0] * 3, to_rgb=True
)

# Saturation, hue and grey do nothing to a grey image.
jitter = dict(strength=(0.4, 0.4, 0.0, 0.0), grey=0.0)
train_pipeline = [
    dict(type='mmbam.SeedBySample'),
    dict(type='LoadImageFromFile'),
    dict(
        type='mmbam.MultiCrop',
        views=[
            # The paper's sigma of up to 2 px at 224 px would leave nothing at 32 px.
            dict(size=32, area=(0.25, 1.0), blur=1.0, sigma=(0.1, 0.8), **jitter),
            dict(size=32, area=(0.25, 1.0), blur=0.1, sigma=(0.1, 0.8), **jitter),
            dict(
                num=4, size=16, area=(0.08, 0.25), blur=0.5, sigma=(0.1, 0.4), **jitter
            ),
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
]
