"""ImageNet-1k without labels: 2 global and 6 local views of every image."""

data_preprocessor = dict(
    type='SelfSupDataPreprocessor',
    mean=[123.675, 116.28, 103.53],
    std=[58.395, 57.12, 57.375],
    to_rgb=True,
)

# Sec. 4.1 names the augmentations, after BYOL, and multi-crop, after SwAV. All numbers
# of the views are those of the authors' release, which are DINO's.
augmentation = dict(
    aspect=(3 / 4, 4 / 3),
    flip=0.5,
    vertical_flip=0.0,  # above 0 for images without an up and down
    jitter=0.8,
    strength=(0.4, 0.4, 0.4, 0.1),  # brightness, contrast, saturation, hue
    gray=0.2,
    sigma=(0.1, 2.0),  # of the blur
)
train_pipeline = [
    dict(type='mmbam.SeedBySample'),
    # Up to 1 % of the images may be unreadable.
    dict(
        type='mmbam.LoadImage',
        max_errors=0.01,
        max_pixels=200_000_000,
        backend_args=None,
    ),
    dict(
        type='mmbam.MultiCrop',
        # Table of experiment configurations (a): 2 large and 6 small crops.
        views=[
            dict(size=224, area=(0.25, 1.0), blur=1.0, **augmentation),
            dict(size=224, area=(0.25, 1.0), blur=0.1, solarize=0.2, **augmentation),
            dict(num=6, size=96, area=(0.05, 0.25), blur=0.5, **augmentation),
        ],
        alpha=0.6,  # App. G: as in ContrastiveCrop's paper
    ),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=256,  # x 16 GPUs = 4096, the paper's (App. C and D)
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
