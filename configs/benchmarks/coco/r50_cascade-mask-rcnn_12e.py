"""Cascade Mask R-CNN with ResNet-50 and FPN on COCO; the paper has ViT-B alone.

mmdet's recipe of 12 epochs, but nothing of the backbone is frozen, and batch norm is
trained and synchronised, as MoCo does it: features learnt without labels are not scaled
as those that mmdet's settings were made for.
"""

_base_ = [
    'mmdet::_base_/models/cascade-mask-rcnn_r50_fpn.py',
    'mmdet::_base_/datasets/coco_instance.py',
    'mmdet::_base_/schedules/schedule_1x.py',
    'mmdet::_base_/default_runtime.py',
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

# All weights from the file that MMBAM_CHECKPOINT names, or none.
custom_hooks = [dict(type='mmbam.PretrainedBackboneHook')]
randomness = dict(seed=0)
