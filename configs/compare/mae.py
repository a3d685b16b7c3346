method = dict(
    title='MAE',
    source='arXiv:2111.06377',
    own='75 % masked, pixels normalised by patch, crop and flip alone; patch '
    'projection trained; decoder as wide as the network, two thirds of its blocks',
    backbones=['MoCoV3ViT', 'VisionTransformer'],
)
model = dict(
    type='MAE',
    # The given network, with masks.
    backbone=dict(
        type='MAEViT',
        arch='=backbone.get("arch", "base")',
        img_size='=size',
        patch_size='=patch_size',
        mask_ratio=0.75,
    ),
    neck=dict(
        type='MAEPretrainDecoder',
        num_patches='=(size // patch_size) ** 2',
        patch_size='=patch_size',
        embed_dim='=width',
        decoder_embed_dim='=width',
        decoder_depth='=round(blocks * 2 / 3)',  # 8 for the 12 of ViT-B
        decoder_num_heads=4,
    ),
    head=dict(
        type='MAEPretrainHead',
        norm_pix=True,
        patch_size='=patch_size',
        loss=dict(type='PixelReconstructionLoss', criterion='L2'),
    ),
    init_cfg=[
        dict(type='Xavier', layer='Linear', distribution='uniform'),
        dict(type='Constant', layer='LayerNorm', val=1.0, bias=0.0),
    ],
)
train_pipeline = [
    dict(
        type='RandomResizedCrop',
        scale='=size',
        crop_ratio_range=(0.2, 1.0),
        interpolation='bicubic',
    ),
    dict(type='RandomFlip', prob=0.5),
]
