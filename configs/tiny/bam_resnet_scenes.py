"""BAM with ContrastiveCrop on scenes whose backgrounds are out of focus.

Only their objects tell these images apart, and most random local crops show little of
them. Takes minutes on a CPU. Make the scenes first::

    mmbam world data/objects --patches 16 16 --videos 0 0 \
        --scenes 2000 200 --scene-size 64 --objects 2 --background-blur 6
"""

_base_ = 'bam_resnet_32px.py'

data_root = 'data/objects/coco/train2017'

model = dict(
    backbone=dict(
        _delete_=True,
        type='ResNet',
        depth=18,
        stem_channels=24,
        base_channels=24,
        num_stages=2,
        strides=(1, 2),
        dilations=(1, 1),
        out_indices=(1,),
        zero_init_residual=False,
    ),
    neck=dict(in_channels=48, norm_cfg=None),
)

# Saturation, hue and gray have no effect on gray images.
jitter = dict(strength=(0.4, 0.4, 0.0, 0.0), gray=0.0)
train_pipeline = [
    dict(type='mmbam.SeedBySample'),
    dict(type='mmbam.LoadImage'),
    dict(
        type='mmbam.MultiCrop',
        # The areas of ImageNet's views, with less blur for such small images.
        views=[
            dict(size=32, area=(0.25, 1.0), blur=1.0, sigma=(0.1, 0.6), **jitter),
            dict(size=32, area=(0.25, 1.0), blur=0.1, sigma=(0.1, 0.6), **jitter),
            dict(
                num=4, size=16, area=(0.05, 0.25), blur=0.5, sigma=(0.1, 0.3), **jitter
            ),
        ],
    ),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    dataset=dict(
        _delete_=True,
        type='mmbam.FolderDataset',
        data_root=data_root,
        pipeline=train_pipeline,
    )
)

custom_hooks = [
    dict(type='mmbam.SeedByEpochHook'),
    dict(
        type='mmbam.LocalizeHook',
        start_epoch=10,
        interval=5,
        image_size=128,
        # So shallow a network responds everywhere; only its peaks mark objects.
        threshold=0.7,
        batch_size=100,
        num_workers=0,
    ),
]

param_scheduler = [
    dict(type='LinearLR', start_factor=1e-2, end=1, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', begin=1, end=20, convert_to_iter_based=True),
]
train_cfg = dict(max_epochs=20)
