"""S, A, B and the matching loss; and DINO's, to compare with."""

from .bam_loss import BAMLoss
from .dino_loss import DINOLoss

__all__ = ['BAMLoss', 'DINOLoss']
