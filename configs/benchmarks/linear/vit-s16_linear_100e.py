"""Linear probe of ViT-S; 75.0 % top-1 in the paper.

    MMBAM_CHECKPOINT=pretrained.pth tools/dist_train.sh \
        configs/benchmarks/linear/vit-s16_linear_100e.py 8
"""

_base_ = [
    '../../_base_/models/vit-s16_linear.py',
    '../../_base_/datasets/imagenet_linear.py',
    '../../_base_/schedules/sgd_linear_100e.py',
    '../../_base_/hooks/pretrained_backbone.py',
    '../../_base_/default_runtime.py',
]
