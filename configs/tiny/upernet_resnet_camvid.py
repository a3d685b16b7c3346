"""UPerNet on CamVid with the tiny ResNet: a real street in minutes on a CPU.

    MMBAM_CHECKPOINT=work_dirs/demo/run/epoch_28.pth \
        mmbam train configs/tiny/upernet_resnet_camvid.py

Under ``data/camvid`` are ``images/{train,val}`` and ``labels/{train,val}`` with PNG
files; labels 0 to 10 are the classes of SegNet's version, 11 is void.
"""

_base_ = './upernet_resnet_world.py'

classes = (
    'sky', 'building', 'pole', 'road', 'pavement', 'tree', 'sign', 'fence', 'car',
    'pedestrian', 'bicyclist',
)  # fmt: skip
num_classes = len(classes)
void = 11
crop_size = (192, 192)

data_preprocessor = dict(
    mean=[123.675, 116.28, 103.53],
    std=[58.395, 57.12, 57.375],
    size=crop_size,
    seg_pad_val=void,
)
model = dict(
    data_preprocessor=data_preprocessor,
    decode_head=dict(num_classes=num_classes, ignore_index=void),
    auxiliary_head=dict(num_classes=num_classes, ignore_index=void),
)

train_pipeline = [
    dict(type='mmbam.LoadImage'),
    dict(type='LoadAnnotations'),
    dict(
        type='RandomResize', scale=(480, 360), ratio_range=(0.5, 1.0), keep_ratio=True
    ),
    dict(type='RandomCrop', crop_size=crop_size, ignore_index=void),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PhotoMetricDistortion'),
    dict(type='PackSegInputs'),
]
test_pipeline = [
    dict(type='mmbam.LoadImage', max_errors=0),
    dict(type='Resize', scale=(320, 240), keep_ratio=True),
    dict(type='LoadAnnotations'),
    dict(type='PackSegInputs'),
]
camvid = dict(
    _delete_=True,
    type='BaseSegDataset',
    data_root='data/camvid',
    metainfo=dict(
        classes=classes, palette=[[20 * i, 255 - 20 * i, 128] for i in range(11)]
    ),
    img_suffix='.png',
    ignore_index=void,
)
train_dataloader = dict(
    dataset=dict(
        data_prefix=dict(img_path='images/train', seg_map_path='labels/train'),
        pipeline=train_pipeline,
        **camvid,
    )
)
val_dataloader = dict(
    dataset=dict(
        data_prefix=dict(img_path='images/val', seg_map_path='labels/val'),
        pipeline=test_pipeline,
        **camvid,
    )
)
test_dataloader = val_dataloader
val_evaluator = dict(ignore_index=void)
test_evaluator = val_evaluator
