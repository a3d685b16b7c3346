"""Methods that comparisons need and mmpretrain lacks."""

from .dino import DINO, DINOLoss, DINONeck
from .swav_neck import VectorSwAVNeck
from .vicreg import VICRegHead

__all__ = ['DINO', 'DINOLoss', 'DINONeck', 'VICRegHead', 'VectorSwAVNeck']
