"""Linear probe of CAFormer-M36; 78.9 % top-1 in the paper.

With the recipe of ViT, as in pre-training (App. B). It has no [cls]: the mean of the
last map is what the classifier sees.
"""

_base_ = './vit-s16_linear_100e.py'

model = dict(
    backbone=dict(_delete_=True, type='mmbam.CAFormer', arch='m36'),
    neck=[
        dict(type='GlobalAveragePooling'),
        dict(type='ClsBatchNormNeck', input_features=576, affine=False),
    ],
    head=dict(in_channels=576),
)
