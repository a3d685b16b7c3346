"""Fine-tuning of ViT-B with 10 % of the labels; 75.9 % top-1 in the paper."""

_base_ = './vit-s16_semi-10percent_100e.py'

model = dict(
    backbone=dict(arch=dict(embed_dims=768, feedforward_channels=3072)),
    head=dict(in_channels=768),
)
