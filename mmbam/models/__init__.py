"""Backbone, projector, teacher, head and loss of BAM."""

from .features import pool_features
from .losses import BAMLoss
from .saliency import attention_maps, boxes_from_heat_maps, heat_map

__all__ = [
    'BAMLoss',
    'attention_maps',
    'boxes_from_heat_maps',
    'heat_map',
    'pool_features',
]
