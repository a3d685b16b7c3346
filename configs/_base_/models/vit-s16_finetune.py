"""ViT-S with DeiT's regularization; all weights are trained."""

model = dict(
    type='ImageClassifier',
    # MoCo v3's ViT-S with 12 heads (DeiT's has 6), but not the class MoCoV3ViT, which
    # freezes positions and patch projection.
    backbone=dict(
        type='VisionTransformer',
        arch=dict(
            embed_dims=384, num_layers=12, num_heads=12, feedforward_channels=1536
        ),
        img_size=224,
        patch_size=16,
        drop_path_rate=0.1,
        out_type='cls_token',
    ),
    head=dict(
        type='LinearClsHead',
        num_classes=1000,
        in_channels=384,
        loss=dict(type='LabelSmoothLoss', label_smooth_val=0.1, mode='original'),
        init_cfg=dict(type='TruncNormal', layer='Linear', std=0.02),
    ),
    # One of the two for each batch, with equal probability.
    train_cfg=dict(
        augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]
    ),
)
