"""Smaller data sets at 224 px: DeiT's augmentation without erasing or repetition.

This is MoCo v3's recipe. A config that inherits from this one must name the data sets.
"""

_base_ = './imagenet_finetune.py'

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='RandomResizedCrop', scale=224, backend='pillow', interpolation='bicubic'
    ),
    dict(type='RandomFlip', prob=0.5),
    _base_.rand_augment,
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=128,  # x 8 GPUs = 1024
    sampler=dict(_delete_=True, type='DefaultSampler', shuffle=True),
)
