"""Linear probe of a frozen ViT-S on [cls] and the mean patch token (App. D).

Features are normalized by a batch norm without affine parameters.
"""

model = dict(
    type='mmbam.LinearProbe',
    backbone=dict(
        type='MoCoV3ViT',
        arch='mocov3-small',
        img_size=224,
        patch_size=16,
        out_type='raw',
    ),
    neck=[
        dict(type='mmbam.ClsAndPatchesNeck'),
        dict(type='ClsBatchNormNeck', input_features=2 * 384, affine=False),
    ],
    head=dict(type='LinearClsHead', num_classes=1000, in_channels=2 * 384),
)
