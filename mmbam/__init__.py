"""BAM (Balanced self-Attention Matching, ECCV 2024) for OpenMMLab."""

from mmbam.fork_names import know_forks
from mmbam.version import __version__
from mmbam.versions import require_core

require_core()
know_forks()

__all__ = ['__version__']
