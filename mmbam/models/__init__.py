"""Backbone, projector, teacher, head and loss of BAM."""

from mmbam.datasets.boxes import boxes_from_heat_maps

from .backbones.anatomy import attention_maps, embedding, heat_map
from .backbones.caformer import CAFormer
from .backbones.cls_vit import ClsViT
from .backbones.normed_maps_vit import NormedMapsViT
from .backbones.one_pass import embedding_and_tokens
from .backbones.outputs import pool_features
from .backbones.timm_embedding import TIMMEmbedding
from .bam import BAM
from .bands_preprocessor import BandsPreprocessor, BandsSegPreprocessor
from .head import BAMHead
from .latents import embed_views
from .linear_probe import ClsAndPatchesNeck, LinearProbe
from .losses import BAMLoss
from .projector import BAMNeck
from .teacher import EMATeacher, FrozenTeacher

__all__ = [
    'BAM',
    'BAMHead',
    'BAMLoss',
    'BAMNeck',
    'BandsPreprocessor',
    'BandsSegPreprocessor',
    'CAFormer',
    'ClsAndPatchesNeck',
    'ClsViT',
    'EMATeacher',
    'FrozenTeacher',
    'LinearProbe',
    'NormedMapsViT',
    'TIMMEmbedding',
    'attention_maps',
    'boxes_from_heat_maps',
    'embed_views',
    'embedding',
    'embedding_and_tokens',
    'heat_map',
    'pool_features',
]
