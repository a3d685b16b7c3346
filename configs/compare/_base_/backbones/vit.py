"""``--backbone vit`` of ``mmbam compare``: for images of about 32 px, on CPU."""

model = dict(
    backbone=dict(
        type='MoCoV3ViT',
        arch=dict(embed_dims=128, num_layers=4, num_heads=4, feedforward_channels=512),
        patch_size=8,
        stop_grad_conv1=True,
        out_type='cls_token',
    )
)
