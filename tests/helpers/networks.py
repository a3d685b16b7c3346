"""Small networks of both libraries with random weights in all places."""

import timm
import torch
from mmpretrain.registry import MODELS
from torch import nn


def randomise(network: nn.Module, seed: int = 0) -> nn.Module:
    """Random weights and statistics everywhere, so that each one shows."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in network.state_dict().items():
        if value.is_floating_point():
            noise = torch.randn(value.shape, generator=generator) * 0.1
            value.copy_(noise.abs() + 0.5 if 'var' in name else noise)
    network.eval()  # mmpretrain's backbones return nothing here
    return network


def mm(**cfg) -> nn.Module:
    return randomise(MODELS.build(cfg), seed=1)


def mm_vit(
    kind='VisionTransformer', img_size=32, arch=(), patch_size=8, **kwargs
) -> nn.Module:
    small = dict(embed_dims=24, num_layers=2, num_heads=4, feedforward_channels=48)
    arch = {**small, **dict(arch)}
    return mm(
        type=f'mmpretrain.{kind}',
        arch=arch,
        img_size=img_size,
        patch_size=patch_size,
        **kwargs,
    )


def timm_vit(img_size=32, depth=2, **kwargs) -> nn.Module:
    network = timm.create_model(
        'vit_small_patch16_224',
        img_size=img_size,
        patch_size=8,
        embed_dim=24,
        depth=depth,
        num_heads=4,
        mlp_ratio=2,
        **kwargs,
    )
    return randomise(network)


CAFORMER = dict(model_name='caformer_s18')
RESNET = dict(model_name='resnet50', num_classes=7)


def timm_caformer(**kwargs) -> nn.Module:
    return randomise(timm.create_model(**CAFORMER, **kwargs))


def mm_caformer(**kwargs) -> nn.Module:
    return mm(type='mmpretrain.TIMMBackbone', **CAFORMER, **kwargs)


def timm_resnet() -> nn.Module:
    return randomise(timm.create_model(**RESNET))


def mm_resnet(depth=50) -> nn.Module:
    return mm(type='mmpretrain.ResNet', depth=depth)
