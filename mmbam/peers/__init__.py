"""Methods that comparisons need and mmpretrain lacks."""

from .dino import DINO, DINONeck
from .dino_loss import DINOLoss
from .swav_neck import VectorSwAVNeck

__all__ = ['DINO', 'DINOLoss', 'DINONeck', 'VectorSwAVNeck']
