"""The same views from separate transforms, to add, drop or replace a step.

mmpretrain's MultiView takes several times as long as mmbam.MultiCrop
(benchmarks/views.py).
"""

_base_ = './vit-s16_300e.py'

crop = dict(
    type='mmbam.ContrastiveCrop',
    alpha=0.6,
    box=None,  # from mmbam.LocalizeHook; 'center' for SimCCrop
    interpolation='bicubic',
    backend='pillow',
)
global_crop = dict(crop, scale=224, crop_ratio_range=(0.25, 1.0))
local_crop = dict(crop, scale=96, crop_ratio_range=(0.05, 0.25))
color = [
    dict(type='RandomFlip', prob=0.5),
    dict(
        type='mmbam.ColorJitter',
        brightness=0.4,
        contrast=0.4,
        saturation=0.4,
        hue=0.1,
        prob=0.8,
    ),
    dict(
        type='RandomGrayscale',
        prob=0.2,
        keep_channels=True,
        channel_weights=(0.114, 0.587, 0.299),  # of blue, green and red
    ),
]
blur = dict(type='mmbam.GaussianBlur', sigma=(0.1, 2.0))
train_pipeline = [
    *_base_.train_pipeline[:2],
    dict(
        type='MultiView',
        num_views=[1, 1, 6],
        transforms=[
            [global_crop, *color, dict(blur, prob=1.0)],
            [
                global_crop,
                *color,
                dict(blur, prob=0.1),
                dict(type='Solarize', thr=128, prob=0.2),
            ],
            [local_crop, *color, dict(blur, prob=0.5)],
        ],
    ),
    dict(type='PackInputs'),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
