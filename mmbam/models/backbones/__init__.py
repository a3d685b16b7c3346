"""Backbones of mmbam, and answers to questions about any backbone (anatomy.py)."""

from .caformer import CAFormer
from .cls_vit import ClsViT

__all__ = ['CAFormer', 'ClsViT']
