"""An unpickler that calls and fills only what is listed, so that no file runs code."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any

import torch


class Inert:
    """Stands in for every object that is not listed, and ignores what fills it."""

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, *args, **kwargs):
        pass

    def _nothing(self, *args, **kwargs):
        return None

    # All that unpickling calls on an object that it fills.
    __call__ = __setstate__ = __setitem__ = append = extend = add = _nothing


_Unpickler: Any = pickle._Unpickler  # has no types


class RestrictedUnpickler(_Unpickler):
    """Rebuilds tensors and containers, and refuses every other name.

    Python's own implementation rather than C's, whose opcodes cannot be overridden.

    Attributes:
        allowed (dict[str, Any]): What each full name in a file stands for.
        stand_in (type, optional): What every other name stands for. None refuses it.
    """

    allowed = {
        'collections.OrderedDict': OrderedDict,
        'torch.Size': torch.Size,
        'torch._utils._rebuild_tensor': torch._utils._rebuild_tensor,
        'torch._utils._rebuild_tensor_v2': torch._utils._rebuild_tensor_v2,
        'torch._utils._rebuild_parameter': torch._utils._rebuild_parameter,
    }
    stand_in: type | None = None
    dispatch = dict(_Unpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name stands for."""
        full_name = f'{module.replace("__builtin__", "builtins")}.{name}'
        found = self.allowed.get(full_name, self.stand_in)
        if found is None:
            raise pickle.UnpicklingError(full_name)
        return found

    def may_fill(self, value: object) -> bool:
        """Whether a file may set the state of an object that it made.

        Never that of the listed classes and functions, which a file could change.
        """
        return isinstance(value, (OrderedDict, Inert))

    def load_build(self) -> None:
        """Set the state of the object below the top of the stack."""
        if not self.may_fill(self.stack[-2]):
            raise pickle.UnpicklingError(f'a state for {self.stack[-2]!r}')
        super().load_build()

    dispatch[pickle.BUILD[0]] = load_build


class InertUnpickler(RestrictedUnpickler):
    """Rebuilds tensors and containers; every other name stands for :class:`Inert`."""

    stand_in = Inert


def pickle_module(unpickler: type[RestrictedUnpickler]) -> type:
    """Make what ``torch.load`` takes as ``pickle_module``."""

    class Module:
        Unpickler = unpickler
        UnpicklingError = pickle.UnpicklingError

        @staticmethod
        def load(file, **kwargs):
            return unpickler(file, **kwargs).load()

    return Module
