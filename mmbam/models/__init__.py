"""Backbone, projector, teacher, head and loss of BAM."""

from .bam import BAM
from .caformer import CAFormer
from .cls_vit import ClsViT
from .dino import DINO, DINONeck
from .features import pool_features
from .head import BAMHead
from .latents import embed_views
from .linear_probe import ClsAndPatchesNeck, LinearProbe
from .losses import BAMLoss, DINOLoss
from .projector import BAMNeck
from .saliency import attention_maps, boxes_from_heat_maps, heat_map
from .teacher import EMATeacher, FrozenTeacher

__all__ = [
    'BAM',
    'BAMHead',
    'BAMLoss',
    'BAMNeck',
    'CAFormer',
    'ClsAndPatchesNeck',
    'ClsViT',
    'DINO',
    'DINOLoss',
    'DINONeck',
    'EMATeacher',
    'FrozenTeacher',
    'LinearProbe',
    'attention_maps',
    'boxes_from_heat_maps',
    'embed_views',
    'heat_map',
    'pool_features',
]
