"""Side by side with other methods: quality, time and memory on one's own images."""

from .compare import compare
from .methods import METHODS
from .settings import Settings

__all__ = ['METHODS', 'Settings', 'compare']
