"""Tiny models and batches that several tests share."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

VIT = dict(
    type='mmpretrain.MoCoV3ViT',
    arch=dict(embed_dims=32, num_layers=2, num_heads=4, feedforward_channels=64),
    img_size=32,
    patch_size=8,
    stop_grad_conv1=True,
    out_type='cls_token',
)
RESNET = dict(
    type='mmpretrain.ResNet', depth=18, stem_channels=8, base_channels=8, num_stages=2,
    strides=(1, 2), dilations=(1, 1), out_indices=(1,),
    zero_init_residual=False,  # or half of the weights start without a gradient
)  # fmt: skip
WIDTH = {'mmpretrain.MoCoV3ViT': 32, 'mmpretrain.ResNet': 16}


def bam_config(
    backbone: dict = VIT,
    num_views: int = 4,
    teacher: dict | None = None,
    norm_cfg: dict | None = None,
    **loss,
) -> dict:
    """Config of a tiny BAM model."""
    backbone = copy.deepcopy(backbone)
    return dict(
        type='mmbam.BAM',
        data_preprocessor=dict(type='mmpretrain.SelfSupDataPreprocessor'),
        backbone=backbone,
        neck=dict(
            type='mmbam.BAMNeck',
            in_channels=WIDTH[backbone['type']],
            hid_channels=48,
            out_channels=24,
            norm_cfg=norm_cfg,
        ),
        head=dict(
            type='mmbam.BAMHead',
            loss=dict(type='mmbam.BAMLoss', num_views=num_views, **loss),
        ),
        teacher=teacher,
    )


def make_views(
    n: int = 6, num_global: int = 2, num_local: int = 2, dtype=torch.float32
) -> list[Tensor]:
    """Views of ``n`` images, 32 and 16 pixels wide."""
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(n, 3, size, size, generator=generator, dtype=dtype)
        for size in [32] * num_global + [16] * num_local
    ]
