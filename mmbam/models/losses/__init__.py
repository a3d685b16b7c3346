"""S, A, B and the matching loss."""

from .bam_loss import BAMLoss

__all__ = ['BAMLoss']
