"""ImageNet-1k with labels, augmented by random crops and flips only."""

data_root = 'data/imagenet'

data_preprocessor = dict(
    type='ClsDataPreprocessor',
    num_classes=1000,
    mean=[123.675, 116.28, 103.53],
    std=[58.395, 57.12, 57.375],
    to_rgb=True,
)

bicubic = dict(backend='pillow', interpolation='bicubic')
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomResizedCrop', scale=224, **bicubic),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='ResizeEdge', scale=256, edge='short', **bicubic),
    dict(type='CenterCrop', crop_size=224),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=128,  # x 8 GPUs = 1024
    num_workers=10,
    persistent_workers=True,
    pin_memory=True,
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ImageNet', data_root=data_root, split='train', pipeline=train_pipeline
    ),
)
val_dataloader = dict(
    batch_size=128,
    num_workers=10,
    persistent_workers=True,
    pin_memory=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ImageNet', data_root=data_root, split='val', pipeline=test_pipeline
    ),
)
test_dataloader = val_dataloader

val_evaluator = dict(type='Accuracy', topk=(1, 5))
test_evaluator = val_evaluator
