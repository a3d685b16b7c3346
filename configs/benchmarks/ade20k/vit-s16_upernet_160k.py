"""UPerNet with ViT-S on ADE20K; the paper reports ViT-B only.

The numbers are those of iBOT's recipe for ViT-S.
"""

_base_ = './vit-b16_upernet_160k.py'

model = dict(
    backbone=dict(arch=dict(embed_dims=384, feedforward_channels=1536)),
    neck=dict(embed_dim=384),
    decode_head=dict(in_channels=[384] * 4, channels=384),
    auxiliary_head=dict(in_channels=384),
)

optim_wrapper = dict(optimizer=dict(lr=3e-5), paramwise_cfg=dict(layer_decay_rate=0.9))
