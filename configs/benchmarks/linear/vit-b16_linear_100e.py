"""Linear probe of ViT-B; 78.1 % top-1 in the paper (App. B: 77.5)."""

_base_ = './vit-s16_linear_100e.py'

model = dict(
    backbone=dict(arch='base'),
    neck=[
        dict(type='mmbam.ClsAndPatchesNeck'),
        dict(type='ClsBatchNormNeck', input_features=2 * 768, affine=False),
    ],
    head=dict(in_channels=2 * 768),
)
