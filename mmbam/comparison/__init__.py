"""BAM beside other methods: quality, time and memory on one's own images."""

from .compare import compare
from .method import load_method, method_names
from .settings import Settings

__all__ = ['Settings', 'compare', 'load_method', 'method_names']
