"""Fine-tuning of ViT-S with DeiT's recipe; 81.3 % top-1 in the paper.

    MMBAM_CHECKPOINT=pretrained.pth tools/dist_train.sh \
        configs/benchmarks/finetune/vit-s16_finetune_150e.py 8
"""

_base_ = [
    '../../_base_/models/vit-s16_finetune.py',
    '../../_base_/datasets/imagenet_finetune.py',
    '../../_base_/schedules/adamw_finetune_150e.py',
    '../../_base_/hooks/pretrained_backbone.py',
    '../../_base_/default_runtime.py',
]
