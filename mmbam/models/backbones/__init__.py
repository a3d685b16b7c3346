"""Backbones of mmbam, and answers to questions about any backbone (anatomy.py)."""

from .caformer import CAFormer
from .cls_vit import ClsViT
from .timm_embedding import TIMMEmbedding

__all__ = ['CAFormer', 'ClsViT', 'TIMMEmbedding']
