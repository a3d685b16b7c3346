"""Cascade Mask R-CNN with ResNet-50 and FPN on COCO; the paper reports ViT-B only.

mmdet's recipe of 12 epochs. As in MoCo, no layer is frozen and batch norm is trained
and synchronized, because self-supervised features are scaled differently from the
supervised ones that mmdet's settings were made for.
"""

_base_ = [
    'mmdet::_base_/models/cascade-mask-rcnn_r50_fpn.py',
    'mmdet::_base_/datasets/coco_instance.py',
    'mmdet::_base_/schedules/schedule_1x.py',
    'mmdet::_base_/default_runtime.py',
    '../../_base_/hooks/pretrained_backbone.py',
]

model = dict(
    backbone=dict(
        _delete_=True,
        type='mmpretrain.ResNet',
        depth=50,
        out_indices=(0, 1, 2, 3),
        norm_cfg=dict(type='SyncBN', requires_grad=True),
    ),
    neck=dict(norm_cfg=dict(type='SyncBN', requires_grad=True)),
)

randomness = dict(seed=0)
