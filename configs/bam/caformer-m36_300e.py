"""BAM with CAFormer-M36; 78.9 % top-1 of the linear probe in the paper (App. B)."""

_base_ = './vit-b16_300e.py'

# App. B: trained with the hyper-parameters of ViT-B.
model = dict(
    backbone=dict(_delete_=True, type='mmbam.CAFormer', arch='m36'),
    neck=dict(in_channels=576),
)
