"""Cascade Mask R-CNN learns 16 images of COCO by heart, with the tiny ResNet.

A check that boxes, masks and metric work on the real thing, minutes on a CPU:

    mmbam subset data/coco/annotations/instances_val2017.json \
        data/coco/annotations/first16.json --images 16
    MMBAM_CHECKPOINT=work_dirs/demo/run/epoch_28.pth \
        mmbam train configs/tiny/cascade-mask-rcnn_resnet_coco16.py
"""

_base_ = './cascade-mask-rcnn_resnet_world.py'

data_root = 'data/coco/'
ann_file = 'annotations/first16.json'
image_folder = 'val2017/'
num_classes = 80

model = dict(
    data_preprocessor=dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375]),
    neck=dict(num_outs=5),
    rpn_head=dict(anchor_generator=dict(strides=[4, 8, 16, 32, 64])),
    roi_head=dict(
        bbox_head=[
            dict(head, num_classes=num_classes)
            for head in _base_.model.roi_head.bbox_head
        ],
        mask_head=dict(num_classes=num_classes),
    ),
    train_cfg=dict(
        rpn=dict(sampler=dict(num=128)),
        rcnn=[
            dict(stage, sampler=dict(stage['sampler'], num=64))
            for stage in _base_.model.train_cfg.rcnn
        ],
    ),
    test_cfg=dict(rcnn=dict(max_per_img=100)),
)

resize = dict(type='Resize', scale=(320, 320), keep_ratio=True)
train_pipeline = list(_base_.train_pipeline)
train_pipeline[0] = dict(type='mmbam.LoadImage')
train_pipeline[2] = resize
test_pipeline = list(_base_.test_pipeline)
test_pipeline[0] = dict(type='mmbam.LoadImage', max_errors=0)
test_pipeline[1] = resize

first16 = dict(
    _delete_=True,
    type='CocoDataset',
    data_root=data_root,
    ann_file=ann_file,
    data_prefix=dict(img=image_folder),
)
train_dataloader = dict(batch_size=4, dataset=dict(pipeline=train_pipeline, **first16))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline, test_mode=True, **first16))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=data_root + ann_file)
test_evaluator = val_evaluator

max_epochs = 120
train_cfg = dict(max_epochs=max_epochs, val_interval=max_epochs)
param_scheduler = [
    _base_.param_scheduler[0],
    dict(_base_.param_scheduler[1], end=max_epochs),
]
auto_scale_lr = dict(base_batch_size=4)
default_hooks = dict(checkpoint=dict(interval=max_epochs))
