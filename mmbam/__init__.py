"""BAM (Balanced self-Attention Matching, ECCV 2024) for OpenMMLab.

Each verb of the command ``mmbam`` is also a function of this module, as ``mmbam.knn``.
"""

from __future__ import annotations

from typing import Any

from .utils.config_names import know_names
from .utils.versions import require_core
from .version import __version__

require_core()
know_names()

__all__ = ['__version__']


def __getattr__(name: str) -> Any:
    from .cli.call import FUNCTIONS, function_of

    if name not in FUNCTIONS:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return function_of(name)


def __dir__() -> list[str]:
    from .cli.call import FUNCTIONS

    return sorted({*globals(), *FUNCTIONS})
