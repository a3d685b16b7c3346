"""Fine-tuning of ViT-B with DeiT's recipe; 83.2 % top-1 in the paper."""

_base_ = './vit-s16_finetune_150e.py'

model = dict(
    backbone=dict(arch=dict(embed_dims=768, feedforward_channels=3072)),
    head=dict(in_channels=768),
)
