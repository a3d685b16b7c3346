"""ImageNet-1k with labels and DeiT's augmentation."""

_base_ = './imagenet_linear.py'

# Images are BGR until the preprocessor converts them.
bgr_mean = _base_.data_preprocessor['mean'][::-1]
bgr_std = _base_.data_preprocessor['std'][::-1]

# timm's rand-m9-mstd0.5-inc1
rand_augment = dict(
    type='RandAugment',
    policies='timm_increasing',
    num_policies=2,
    total_level=10,
    magnitude_level=9,
    magnitude_std=0.5,
    hparams=dict(pad_val=[round(x) for x in bgr_mean], interpolation='bicubic'),
)
# Fills with noise that is standard normal after normalization.
random_erasing = dict(
    type='RandomErasing',
    erase_prob=0.25,
    mode='rand',
    min_area_ratio=0.02,
    max_area_ratio=1 / 3,
    fill_color=bgr_mean,
    fill_std=bgr_std,
)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='RandomResizedCrop', scale=224, backend='pillow', interpolation='bicubic'
    ),
    dict(type='RandomFlip', prob=0.5),
    rand_augment,
    random_erasing,
    dict(type='PackInputs'),
]

train_dataloader = dict(
    # Repeated augmentation: each image three times, in epochs of the same length.
    sampler=dict(_delete_=True, type='RepeatAugSampler', shuffle=True, num_repeats=3),
    dataset=dict(pipeline=train_pipeline),
)
