"""Checkpoints: read safely, load strictly, convert between libraries."""

from .conversion import convert_checkpoint
from .loading import load_backbone
from .reading import read_weights
from .selection import select_backbone

__all__ = ['convert_checkpoint', 'load_backbone', 'read_weights', 'select_backbone']
