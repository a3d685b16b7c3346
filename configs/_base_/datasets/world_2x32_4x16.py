"""Gray patches of the made world (mmbam world): 2 global and 4 local views."""

data_root = 'data/world/imagenet'

# Mean and standard deviation of the training patches, alike in all channels.
data_preprocessor = dict(
    type='SelfSupDataPreprocessor', mean=[124.0] * 3, std=[60.0] * 3, to_rgb=True
)

# Saturation, hue and gray have no effect on gray images.
jitter = dict(strength=(0.4, 0.4, 0.0, 0.0), gray=0.0)
train_pipeline = [
    dict(type='mmbam.SeedBySample'),
    dict(type='mmbam.LoadImage'),
    dict(
        type='mmbam.MultiCrop',
        # Larger areas and less blur than for ImageNet (0.25-1, 0.05-0.25, up to 2 px),
        # which would leave little of a patch of 32 px.
        views=[
            dict(size=32, area=(0.5, 1.0), blur=1.0, sigma=(0.1, 0.6), **jitter),
            dict(size=32, area=(0.5, 1.0), blur=0.1, sigma=(0.1, 0.6), **jitter),
            dict(num=4, size=16, area=(0.2, 0.5), blur=0.5, sigma=(0.1, 0.3), **jitter),
        ],
    ),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='mmbam.LoadImage', max_errors=0),
    dict(type='PackInputs'),
]

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
