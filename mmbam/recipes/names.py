"""Names that ``--model`` takes; importing them costs nothing."""

from __future__ import annotations

TIMM = 'timm:'
#: Archs of the ViTs: MoCo v3's, whose ViT-S has 12 heads, and DeiT's ViT-Ti.
VITS = {
    'vit-ti16': dict(
        embed_dims=192, num_layers=12, num_heads=3, feedforward_channels=768
    ),
    'vit-s16': 'mocov3-small',
    'vit-b16': 'base',
}
RESNETS = {'resnet18': 18, 'resnet50': 50}
NAMES = (*RESNETS, *VITS, 'caformer-m36')
