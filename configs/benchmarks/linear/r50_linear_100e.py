"""Linear probe of ResNet-50; 74.8 % top-1 in the paper.

The classifier sees the mean of the last feature map. The paper does not say whether it
is normalized; at a learning rate 150 times as high as ViT's, we do not normalize it.
"""

_base_ = './vit-s16_linear_100e.py'

model = dict(
    backbone=dict(_delete_=True, type='ResNet', depth=50, norm_cfg=dict(type='BN')),
    neck=dict(_delete_=True, type='GlobalAveragePooling'),
    head=dict(in_channels=2048),
)

# Table (b): 0.3 per 256 images, at batch 1024.
optim_wrapper = dict(optimizer=dict(lr=1.2))
