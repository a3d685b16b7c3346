"""Models of the methods, each with its published loss settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from mmpretrain.models.necks import SwAVNeck
from torch import Tensor

from mmbam.registry import MODELS
from mmbam.utils.errors import InputError


@dataclass
class Setup:
    """What a model is built for.

    Args:
        backbone (dict): Config of the network.
        width (int): Of its embedding.
        is_map (bool): Whether it returns a map (CNN) or a vector (ViT).
        views (int): Views of an image.
        head_width (int): Hidden width of projectors and predictors.
        size (int): Of the images.
        steps (int): Of the whole run.
        epochs (int): Of the whole run.
        batch_size (int): Images in a batch.
    """

    backbone: dict
    width: int
    is_map: bool
    views: int
    head_width: int
    size: int
    steps: int
    epochs: int
    batch_size: int

    def momentum(self, published: float) -> float:
        """Of a moving average: over at most a tenth of the run's steps."""
        return min(published, 1 - 10 / max(self.steps, 20))


@MODELS.register_module()
class VectorSwAVNeck(SwAVNeck):
    """SwAV's projector for backbones that return a vector, as a ViT does its [cls]."""

    def forward(self, x: list[tuple[Tensor, ...]]) -> Tensor:
        """Project what the backbone returned for each size of crops."""
        return self.forward_projection(torch.cat([outputs[-1] for outputs in x]))


def _mlp(setup: Setup, pool: bool = True, **kwargs) -> dict:
    return dict(
        type='NonLinearNeck',
        hid_channels=setup.head_width,
        with_avg_pool=pool and setup.is_map,
        **kwargs,
    )


def bam(teacher: bool) -> Callable[[Setup], dict]:
    def model(setup: Setup) -> dict:
        neck = dict(
            type='mmbam.BAMNeck',
            in_channels=setup.width,
            hid_channels=setup.head_width,
            out_channels=setup.head_width,
            act_cfg=dict(type='ReLU' if setup.is_map else 'GELU'),
        )
        ema = dict(type='mmbam.EMATeacher', momentum=setup.momentum(0.995))
        if not teacher:
            neck['norm_cfg'] = dict(type='BN1d')
        loss = dict(type='mmbam.BAMLoss', num_views=setup.views)
        return dict(
            type='mmbam.BAM',
            neck=neck,
            head=dict(type='mmbam.BAMHead', loss=loss),
            teacher=ema if teacher else None,
        )

    return model


def dino(setup: Setup) -> dict:
    prototypes = 8 * setup.head_width
    loss = dict(
        type='mmbam.DINOLoss',
        out_channels=prototypes,
        num_views=setup.views,
        # 30 of 300 epochs.
        warmup_epochs=round(setup.epochs / 10),
    )
    return dict(
        type='mmbam.DINO',
        neck=dict(
            type='mmbam.DINONeck',
            in_channels=setup.width,
            hid_channels=setup.head_width,
            bottleneck_channels=min(256, setup.head_width),
            out_channels=prototypes,
        ),
        head=dict(type='mmbam.BAMHead', loss=loss),
        teacher=dict(type='mmbam.EMATeacher', momentum=setup.momentum(0.996)),
        freeze_prototypes=1 if setup.epochs > 5 else 0,
    )


def simclr(setup: Setup) -> dict:
    return dict(
        type='SimCLR',
        neck=_mlp(setup, in_channels=setup.width, out_channels=128, num_layers=2),
        head=dict(
            type='ContrastiveHead',
            loss=dict(type='CrossEntropyLoss'),
            temperature=0.1,
        ),
    )


def moco_v3(setup: Setup) -> dict:
    temperature = 1.0 if setup.is_map else 0.2
    bare = dict(with_bias=False, with_last_bn_affine=False, with_last_bias=False)
    return dict(
        type='MoCoV3',
        base_momentum=1 - setup.momentum(0.99),
        neck=_mlp(
            setup,
            in_channels=setup.width,
            out_channels=256,
            num_layers=2 if setup.is_map else 3,
            **bare,
        ),
        head=dict(
            type='MoCoV3Head',
            predictor=_mlp(
                setup,
                pool=False,
                in_channels=256,
                out_channels=256,
                num_layers=2,
                with_last_bn=not setup.is_map,
                **bare,
            ),
            loss=dict(type='CrossEntropyLoss', loss_weight=2 * temperature),
            temperature=temperature,
        ),
    )


def byol(setup: Setup) -> dict:
    plain = dict(out_channels=256, num_layers=2, with_bias=True, with_last_bn=False)
    return dict(
        type='BYOL',
        base_momentum=1 - setup.momentum(0.99),
        neck=_mlp(setup, in_channels=setup.width, **plain),
        head=dict(
            type='LatentPredictHead',
            loss=dict(type='CosineSimilarityLoss'),
            predictor=_mlp(setup, pool=False, in_channels=256, **plain),
        ),
    )


def swav(setup: Setup) -> dict:
    local = setup.views - 2
    return dict(
        type='SwAV',
        neck=dict(
            type='SwAVNeck' if setup.is_map else 'mmbam.VectorSwAVNeck',
            in_channels=setup.width,
            hid_channels=setup.head_width,
            out_channels=128,
            with_avg_pool=setup.is_map,
        ),
        head=dict(
            type='SwAVHead',
            loss=dict(
                type='SwAVLoss',
                feat_dim=128,
                epsilon=0.05,
                temperature=0.1,
                num_crops=[2, local] if local else [2],
            ),
        ),
    )


def swav_hooks(setup: Setup) -> list[dict]:
    return [
        dict(
            type='SwAVHook',
            priority='VERY_HIGH',
            batch_size=setup.batch_size,
            # 15 of 200 epochs, and prototypes that rest for one.
            epoch_queue_starts=max(1, round(0.075 * setup.epochs)),
            crops_for_assign=[0, 1],
            feat_dim=128,
            queue_length=max(3840, setup.batch_size),
            frozen_layers_cfg=dict(prototypes=setup.steps // setup.epochs),
        )
    ]


def barlow_twins(setup: Setup) -> dict:
    return dict(
        type='BarlowTwins',
        neck=_mlp(
            setup,
            in_channels=setup.width,
            out_channels=setup.head_width,
            num_layers=3,
            with_last_bn=False,
            with_last_bn_affine=False,
            init_cfg=dict(type='Kaiming', distribution='uniform', layer=['Linear']),
        ),
        head=dict(
            type='LatentCrossCorrelationHead',
            in_channels=setup.head_width,
            loss=dict(type='CrossCorrelationLoss'),
        ),
    )


def simsiam(setup: Setup) -> dict:
    predictor = dict(
        type='NonLinearNeck',
        in_channels=setup.head_width,
        hid_channels=setup.head_width // 4,
        out_channels=setup.head_width,
        with_avg_pool=False,
        with_last_bn=False,
        with_last_bias=True,
    )
    return dict(
        type='SimSiam',
        neck=_mlp(
            setup,
            in_channels=setup.width,
            out_channels=setup.head_width,
            num_layers=3,
            with_last_bn_affine=False,
        ),
        head=dict(
            type='LatentPredictHead',
            loss=dict(type='CosineSimilarityLoss'),
            predictor=predictor,
        ),
    )


def mae(setup: Setup) -> dict:
    backbone = setup.backbone
    if backbone['type'].split('.')[-1] not in ('MoCoV3ViT', 'VisionTransformer'):
        raise InputError(
            'MAE needs a ViT of mmpretrain (MoCoV3ViT or VisionTransformer), but the '
            f'backbone is {backbone["type"]}.'
        )
    patch, arch = backbone['patch_size'], backbone['arch']
    blocks = arch['num_layers'] if isinstance(arch, dict) else 12
    keep = {k: v for k, v in backbone.items() if k in ('arch', 'img_size')}
    return dict(
        type='MAE',
        backbone=dict(type='MAEViT', patch_size=patch, mask_ratio=0.75, **keep),
        neck=dict(
            type='MAEPretrainDecoder',
            num_patches=(setup.size // patch) ** 2,
            patch_size=patch,
            embed_dim=setup.width,
            decoder_embed_dim=setup.width,
            decoder_depth=round(blocks * 2 / 3),  # 8 for the 12 of ViT-B
            decoder_num_heads=4,
        ),
        head=dict(
            type='MAEPretrainHead',
            norm_pix=True,
            patch_size=patch,
            loss=dict(type='PixelReconstructionLoss', criterion='L2'),
        ),
        init_cfg=[
            dict(type='Xavier', layer='Linear', distribution='uniform'),
            dict(type='Constant', layer='LayerNorm', val=1.0, bias=0.0),
        ],
    )
