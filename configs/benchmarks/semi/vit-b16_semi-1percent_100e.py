"""Fine-tuning of ViT-B with 1 % of the labels; 66.8 % top-1 in the paper."""

_base_ = './vit-s16_semi-1percent_100e.py'

model = dict(
    backbone=dict(arch=dict(embed_dims=768, feedforward_channels=3072)),
    head=dict(in_channels=768),
)
