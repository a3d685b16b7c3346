"""Cascade Mask R-CNN with ViT-B on COCO; 50.3 box AP, 43.3 mask AP in the paper.

The paper names the detector only. The rest is iBOT's recipe: blocks, pyramid, heads,
GIoU, layer-wise decay, crops and schedule.

    MMBAM_CHECKPOINT=pretrained.pth tools/dist_train.sh \
        configs/benchmarks/coco/vit-b16_cascade-mask-rcnn_12e.py 8
"""

_base_ = [
    'mmdet::_base_/models/cascade-mask-rcnn_r50_fpn.py',
    'mmdet::_base_/datasets/coco_instance.py',
    'mmdet::_base_/schedules/schedule_1x.py',
    'mmdet::_base_/default_runtime.py',
    '../../_base_/hooks/pretrained_backbone.py',
]

norm_cfg = dict(type='SyncBN', requires_grad=True)
model = dict(
    # VisionTransformer, as in fine-tuning: positions and patch projection are trained.
    # It resizes the 14 x 14 positions of pre-training to the size of every batch.
    backbone=dict(
        _delete_=True,
        type='mmpretrain.VisionTransformer',
        arch=dict(
            embed_dims=768, num_layers=12, num_heads=12, feedforward_channels=3072
        ),
        img_size=224,
        patch_size=16,
        drop_path_rate=0.2,
        # Blocks 4, 6, 8 and 12, none with the final norm.
        out_indices=(3, 5, 7, 11),
        final_norm=False,
        out_type='featmap',
    ),
    neck=[
        dict(
            type='mmseg.Feature2Pyramid',
            embed_dim=768,
            rescales=[4, 2, 1, 0.5],
            norm_cfg=norm_cfg,
        ),
        dict(type='FPN', in_channels=[768] * 4, out_channels=256, num_outs=5),
    ],
    roi_head=dict(
        bbox_head=[
            dict(
                type='Shared4Conv1FCBBoxHead',
                in_channels=256,
                fc_out_channels=1024,
                roi_feat_size=7,
                num_classes=80,
                norm_cfg=norm_cfg,
                bbox_coder=dict(type='DeltaXYWHBBoxCoder', target_stds=stds),
                reg_class_agnostic=False,
                reg_decoded_bbox=True,  # GIoU compares boxes
                loss_cls=dict(type='CrossEntropyLoss', use_sigmoid=False),
                loss_bbox=dict(type='GIoULoss', loss_weight=10.0),
            )
            for stds in (
                [0.1, 0.1, 0.2, 0.2],
                [0.05, 0.05, 0.1, 0.1],
                [0.033, 0.033, 0.067, 0.067],
            )
        ]
    ),
)

# Shorter sides of 480 to 800; half of the images are cropped first, as in DETR.
multi_scale = dict(
    type='RandomChoiceResize',
    scales=[(short, 1333) for short in range(480, 801, 32)],
    keep_ratio=True,
)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
    dict(type='RandomFlip', prob=0.5),
    dict(
        type='RandomChoice',
        transforms=[
            [multi_scale],
            [
                dict(
                    type='RandomChoiceResize',
                    scales=[(400, 1333), (500, 1333), (600, 1333)],
                    keep_ratio=True,
                ),
                dict(
                    type='RandomCrop',
                    crop_type='absolute_range',
                    crop_size=(384, 600),
                    allow_negative_crop=True,
                ),
                multi_scale,
            ],
        ],
    ),
    dict(type='PackDetInputs'),
]
train_dataloader = dict(
    batch_size=2,  # x 8 GPUs = 16
    dataset=dict(pipeline=train_pipeline),
)

# The steps at epochs 8 and 11 and the warm-up come from mmdet's schedule.
optim_wrapper = dict(
    optimizer=dict(_delete_=True, type='AdamW', lr=1e-4, weight_decay=0.05),
    constructor='mmbam.LayerDecayOptimWrapperConstructor',
    paramwise_cfg=dict(
        layer_decay_rate=0.75,
        flat_decay_mult=0.0,
        custom_keys={
            '.cls_token': dict(decay_mult=0.0),
            '.pos_embed': dict(decay_mult=0.0),
        },
    ),
)

randomness = dict(seed=0)
