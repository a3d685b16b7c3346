"""Cascade Mask R-CNN with ViT-S on COCO; the paper reports ViT-B only.

The numbers are those of iBOT's recipe for ViT-S.
"""

_base_ = './vit-b16_cascade-mask-rcnn_12e.py'

model = dict(
    backbone=dict(
        arch=dict(embed_dims=384, feedforward_channels=1536), drop_path_rate=0.1
    ),
    neck=[
        dict(_base_.model.neck[0], embed_dim=384),
        dict(_base_.model.neck[1], in_channels=[384] * 4),
    ],
)

train_dataloader = dict(batch_size=4)  # x 8 GPUs = 32
optim_wrapper = dict(paramwise_cfg=dict(layer_decay_rate=0.8))
auto_scale_lr = dict(base_batch_size=32)
