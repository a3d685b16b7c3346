"""BAM (Balanced self-Attention Matching, ECCV 2024) for OpenMMLab."""

from mmbam.version import __version__
from mmbam.versions import require_core

require_core()

__all__ = ['__version__']
