"""BAM (Balanced self-Attention Matching, ECCV 2024) for OpenMMLab.

Each verb of the command ``mmbam`` is also a function of this module, as ``mmbam.knn``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from .utils.config_names import know_names
from .utils.versions import require_core
from .version import __version__

try:
    require_core()
except ImportError as error:
    # With -m, sys.argv does not name the module yet.
    as_module = ('-m', 'mmbam') in zip(sys.orig_argv, sys.orig_argv[1:])
    if Path(sys.argv[0]).stem != 'mmbam' and not as_module:
        raise
    # The command says it without a traceback, whatever its verb.
    install = Path(__file__).parent / '.mim' / 'docs' / 'usage.md'
    sys.exit(f'{error}\nHow to install them: {install}')
know_names()

__all__ = ['__version__']


def __getattr__(name: str) -> Any:
    # By name, since this module is below all rooms and cli above them.
    call = import_module('mmbam.cli.call')
    if name not in call.FUNCTIONS:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return call.function_of(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module('mmbam.cli.call').FUNCTIONS})
