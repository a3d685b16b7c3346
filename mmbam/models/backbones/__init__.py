"""Backbones of our own, and what can be asked about anybody's."""

from .caformer import CAFormer
from .cls_vit import ClsViT

__all__ = ['CAFormer', 'ClsViT']
