"""The made world, the demo and the chain of downstream tasks.

This package has the name of a verb: ``mmbam.demo(...)`` runs the demo.
"""

import sys
from types import ModuleType
from typing import Any

import mmbam


class _Callable(ModuleType):
    def __call__(self, **arguments: Any) -> Any:
        return mmbam.__getattr__('demo')(**arguments)


sys.modules[__name__].__class__ = _Callable
