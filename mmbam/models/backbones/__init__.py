"""Backbones of mmbam, and answers to questions about any backbone (anatomy.py)."""

from .caformer import CAFormer
from .cls_vit import ClsViT
from .normed_maps_vit import NormedMapsViT
from .timm_embedding import TIMMEmbedding

__all__ = ['CAFormer', 'ClsViT', 'NormedMapsViT', 'TIMMEmbedding']
