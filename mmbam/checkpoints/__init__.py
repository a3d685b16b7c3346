"""Checkpoints: read safely, load strictly, convert between libraries."""

from .conversion import convert_checkpoint
from .inflation import inflate_input
from .loading import load_backbone, require_fit
from .reading import read_weights
from .selection import select_backbone
from .training import load_training_checkpoint, use_safe_loading

__all__ = [
    'convert_checkpoint',
    'inflate_input',
    'load_backbone',
    'load_training_checkpoint',
    'read_weights',
    'require_fit',
    'select_backbone',
    'use_safe_loading',
]
