"""UPerNet on the made scenes with the tiny ResNet: minutes on a CPU.

    MMBAM_CHECKPOINT=work_dirs/demo/run/epoch_28.pth \
        mmbam train configs/tiny/upernet_resnet_world.py

The config of ResNet-50 with another data root, fewer classes, a shorter schedule, and
sizes that suit the small backbone and scenes.
"""

_base_ = '../benchmarks/ade20k/r50_upernet_160k.py'

data_root = 'data/world/ade/ADEChallengeData2016'
# The labels of the scenes are numbers; the data set accepts ADE20K's names only.
classes = (
    'wall', 'building', 'sky', 'floor', 'tree', 'ceiling', 'road', 'bed ',
    'windowpane', 'grass', 'cabinet', 'sidewalk', 'person', 'earth', 'door', 'table',
)  # fmt: skip
num_classes = len(classes)

data_preprocessor = dict(mean=[124.0] * 3, std=[60.0] * 3, size=(128, 128))
model = dict(
    data_preprocessor=data_preprocessor,
    backbone=dict(
        _delete_=True,
        type='mmpretrain.ResNet_CIFAR',
        depth=18,
        stem_channels=16,
        base_channels=16,
        num_stages=3,
        strides=(2, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(1, 2),  # strides 4 and 8
        zero_init_residual=False,
    ),
    decode_head=dict(
        in_channels=[32, 64],
        in_index=[0, 1],
        channels=48,
        num_classes=num_classes,
    ),
    auxiliary_head=dict(
        in_channels=64, in_index=1, channels=48, num_classes=num_classes
    ),
)

train_pipeline = [
    dict(type='mmbam.LoadImage'),
    dict(type='LoadAnnotations', reduce_zero_label=True),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackSegInputs'),
]
test_pipeline = [
    dict(type='mmbam.LoadImage', max_errors=0),
    dict(type='LoadAnnotations', reduce_zero_label=True),
    dict(type='PackSegInputs'),
]
world = dict(data_root=data_root, metainfo=dict(classes=classes))
train_dataloader = dict(
    batch_size=8, num_workers=1, dataset=dict(pipeline=train_pipeline, **world)
)
val_dataloader = dict(num_workers=1, dataset=dict(pipeline=test_pipeline, **world))
test_dataloader = val_dataloader

max_iters = 300
train_cfg = dict(max_iters=max_iters, val_interval=max_iters)
optim_wrapper = dict(
    _delete_=True,
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.05),
    clip_grad=dict(max_norm=1.0),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=25),
    dict(type='CosineAnnealingLR', by_epoch=False, begin=0, end=max_iters),
]
auto_scale_lr = dict(base_batch_size=8)
default_hooks = dict(logger=dict(interval=25), checkpoint=dict(interval=max_iters))
log_processor = dict(window_size=25)
