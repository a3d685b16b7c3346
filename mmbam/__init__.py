"""BAM (Balanced self-Attention Matching, ECCV 2024) for OpenMMLab."""

from .utils.fork_names import know_forks
from .utils.versions import require_core
from .version import __version__

require_core()
know_forks()

__all__ = ['__version__']
