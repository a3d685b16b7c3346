"""Methods that comparisons need and mmpretrain lacks."""

from .dino import DINO, DINONeck
from .dino_loss import DINOLoss

__all__ = ['DINO', 'DINOLoss', 'DINONeck']
