"""Cascade Mask R-CNN with ViT-S on COCO; the paper reports ViT-B only."""

_base_ = './vit-b16_cascade-mask-rcnn_12e.py'

model = dict(
    backbone=dict(arch=dict(embed_dims=384, feedforward_channels=1536)),
    neck=[
        dict(_base_.model.neck[0], embed_dim=384),
        dict(_base_.model.neck[1], in_channels=[384] * 4),
    ],
)
