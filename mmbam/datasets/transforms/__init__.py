"""Transforms that make the views of an image."""

from .blur import GaussianBlur
from .color import ColorJitter
from .contrastive_crop import ContrastiveCrop
from .loading import LoadImage
from .multi_crop import MultiCrop
from .resize import ResizeShortSide
from .seed_by_sample import SeedBySample
from .window import sample_window

__all__ = [
    'ColorJitter',
    'ContrastiveCrop',
    'GaussianBlur',
    'LoadImage',
    'MultiCrop',
    'ResizeShortSide',
    'SeedBySample',
    'sample_window',
]
