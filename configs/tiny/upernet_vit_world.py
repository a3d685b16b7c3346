"""UPerNet on the made scenes with the tiny ViT: minutes on a CPU."""

_base_ = './upernet_resnet_world.py'

model = dict(
    backbone=dict(
        _delete_=True,
        type='mmbam.NormedMapsViT',
        arch=dict(embed_dims=128, num_layers=4, num_heads=4, feedforward_channels=512),
        img_size=32,
        patch_size=8,
        out_indices=(0, 1, 2, 3),
        out_type='featmap',
    ),
    neck=dict(
        type='Feature2Pyramid',
        embed_dim=128,
        rescales=[2, 1, 0.5, 0.25],  # of patches of 8 px: strides 4 to 32
        norm_cfg=dict(type='SyncBN', requires_grad=True),
    ),
    decode_head=dict(in_channels=[128] * 4, in_index=[0, 1, 2, 3]),
    auxiliary_head=dict(in_channels=128, in_index=2),
)

optim_wrapper = dict(
    constructor='mmbam.LayerDecayOptimWrapperConstructor',
    paramwise_cfg=dict(layer_decay_rate=0.65, flat_decay_mult=0.0),
)
