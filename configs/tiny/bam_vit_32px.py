"""BAM with a tiny ViT on the made world: minutes on a CPU."""

_base_ = './bam_resnet_32px.py'

model = dict(
    backbone=dict(
        _delete_=True,
        type='mmbam.ClsViT',
        arch=dict(embed_dims=128, num_layers=4, num_heads=4, feedforward_channels=512),
        img_size=32,
        patch_size=8,
        stop_grad_conv1=True,
        out_type='cls_token',
    ),
    neck=dict(in_channels=128, act_cfg=dict(type='GELU'), norm_cfg=None),
    channels_last=False,
)
