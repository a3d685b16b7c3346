"""Linear probe of CAFormer-M36; 78.9 % top-1 in the paper.

Uses ViT's recipe, as pre-training does (App. B). There is no [cls], so the classifier
sees the embedding: the final norm of the mean over positions.
"""

_base_ = './vit-s16_linear_100e.py'

model = dict(
    backbone=dict(_delete_=True, type='mmbam.CAFormer', arch='m36'),
    neck=[dict(type='ClsBatchNormNeck', input_features=576, affine=False)],
    head=dict(in_channels=576),
)
