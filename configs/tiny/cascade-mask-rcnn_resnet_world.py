"""Cascade Mask R-CNN on the made scenes with the tiny ResNet: minutes on a CPU.

    MMBAM_CHECKPOINT=work_dirs/demo/run/epoch_28.pth \
        mmbam train configs/tiny/cascade-mask-rcnn_resnet_world.py

The config of ResNet-50 with another data root, fewer classes, a shorter schedule, and
sizes that suit the small backbone and scenes.
"""

_base_ = '../benchmarks/coco/r50_cascade-mask-rcnn_12e.py'

data_root = 'data/world/coco/'
# Data set and metric look up classes by name, so the photographs of the made world have
# COCO's first names.
classes = (
    'person', 'bicycle', 'car', 'motorcycle', 'airplane', 'bus', 'train', 'truck',
    'boat', 'traffic light', 'fire hydrant', 'stop sign', 'parking meter', 'bench',
    'bird', 'cat',
)  # fmt: skip
num_classes = len(classes)
channels = 48

model = dict(
    data_preprocessor=dict(mean=[124.0] * 3, std=[60.0] * 3),
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
    neck=dict(in_channels=[32, 64], out_channels=channels, num_outs=4),
    rpn_head=dict(
        in_channels=channels,
        feat_channels=channels,
        anchor_generator=dict(scales=[4], strides=[4, 8, 16, 32]),
    ),
    roi_head=dict(
        bbox_roi_extractor=dict(out_channels=channels, featmap_strides=[4, 8, 16]),
        bbox_head=[
            dict(
                head,
                in_channels=channels,
                fc_out_channels=192,
                num_classes=num_classes,
            )
            for head in _base_.model.roi_head.bbox_head
        ],
        mask_roi_extractor=dict(out_channels=channels, featmap_strides=[4, 8, 16]),
        mask_head=dict(
            num_convs=2,
            in_channels=channels,
            conv_out_channels=channels,
            num_classes=num_classes,
        ),
    ),
    train_cfg=dict(
        rpn=dict(sampler=dict(num=64)),
        rpn_proposal=dict(nms_pre=200, max_per_img=100),
        rcnn=[
            dict(stage, sampler=dict(stage['sampler'], num=32))
            for stage in _base_.model.train_cfg.rcnn
        ],
    ),
    test_cfg=dict(rpn=dict(nms_pre=200, max_per_img=100), rcnn=dict(max_per_img=20)),
)

train_pipeline = [
    dict(type='mmbam.LoadImage'),
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
    dict(type='Resize', scale=(128, 128), keep_ratio=True),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackDetInputs'),
]
test_pipeline = list(_base_.test_pipeline)
test_pipeline[0] = dict(type='mmbam.LoadImage', max_errors=0)
test_pipeline[1] = dict(type='Resize', scale=(128, 128), keep_ratio=True)

world = dict(data_root=data_root, metainfo=dict(classes=classes))
train_dataloader = dict(
    batch_size=8, num_workers=1, dataset=dict(pipeline=train_pipeline, **world)
)
val_dataloader = dict(num_workers=1, dataset=dict(pipeline=test_pipeline, **world))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=data_root + 'annotations/instances_val2017.json')
test_evaluator = val_evaluator

max_epochs = 12
train_cfg = dict(max_epochs=max_epochs, val_interval=max_epochs)
optim_wrapper = dict(
    optimizer=dict(_delete_=True, type='AdamW', lr=1e-3, weight_decay=0.05),
    clip_grad=dict(max_norm=1.0),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=25),
    dict(
        type='CosineAnnealingLR',
        by_epoch=True,
        begin=0,
        end=max_epochs,
        convert_to_iter_based=True,
    ),
]
auto_scale_lr = dict(base_batch_size=8)
default_hooks = dict(logger=dict(interval=25), checkpoint=dict(interval=max_epochs))
log_processor = dict(window_size=25)
