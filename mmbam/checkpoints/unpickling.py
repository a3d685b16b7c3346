"""Unpicklers that call and fill only what is listed, so that no file runs code."""

from __future__ import annotations

import pickle
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
import torch
from mmengine.logging import HistoryBuffer
from torch import Tensor, nn

_Unpickler: Any = pickle._Unpickler  # has no types


class Refused(pickle.UnpicklingError):
    """A file names or fills something that is not listed."""


class Inert:
    """Stands in for every object that is not listed, and ignores what fills it."""

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, *args, **kwargs):
        pass

    def _nothing(self, *args, **kwargs):
        return None

    # All that unpickling calls on an object that it fills.
    __call__ = __setitem__ = append = extend = add = _nothing


def _rebuild_tensor(storage: Tensor, offset: int, size: tuple, stride: tuple) -> Tensor:
    # Fails where a file claims more than its storage has.
    return storage.as_strided(tuple(size), tuple(stride), offset)


def _rebuild_tensor_v2(
    storage: Tensor,
    offset: int,
    size: tuple,
    stride: tuple,
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    tensor = _rebuild_tensor(storage, offset, size, stride)
    return tensor.requires_grad_(requires_grad is True)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Any:
    return nn.Parameter(data, requires_grad is True)


_STORAGES = dict(
    Double=torch.double, Float=torch.float, Half=torch.half, BFloat16=torch.bfloat16,
    Long=torch.long, Int=torch.int, Short=torch.short, Char=torch.int8,
    Byte=torch.uint8, Bool=torch.bool, ComplexDouble=torch.complex128,
    ComplexFloat=torch.complex64,
)  # fmt: skip


class RestrictedUnpickler(_Unpickler):
    """Rebuilds tensors and containers, and refuses every other name.

    Python's own implementation rather than C's, whose opcodes cannot be overridden.

    Args:
        file (BinaryIO): File with a pickle at its position.
        storage (Callable, optional): Function from a storage's type, key, location and
            length to a flat tensor. Defaults to None, which refuses tensors.

    Attributes:
        allowed (dict[str, Any]): What each full name in a file stands for.
        stand_in (type, optional): What every other name stands for. None refuses it.
    """

    allowed = {
        'collections.OrderedDict': OrderedDict,
        'torch.Size': torch.Size,
        'torch.device': torch.device,
        'torch._utils._rebuild_tensor': _rebuild_tensor,
        'torch._utils._rebuild_tensor_v2': _rebuild_tensor_v2,
        'torch._utils._rebuild_parameter': _rebuild_parameter,
        # The name of a type in a file stands for the type of the numbers.
        **{f'torch.{name}Storage': dtype for name, dtype in _STORAGES.items()},
        **{str(dtype): dtype for dtype in _STORAGES.values()},
    }
    stand_in: type | None = None
    dispatch = dict(_Unpickler.dispatch)

    def __init__(
        self, file: BinaryIO, storage: Callable[..., Tensor] | None = None
    ) -> None:
        super().__init__(file, encoding='utf-8')
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name stands for."""
        full_name = f'{module.replace("__builtin__", "builtins")}.{name}'
        found = self.allowed.get(full_name, self.stand_in)
        if found is None:
            raise Refused(full_name)
        return found

    def persistent_load(self, pid: Any) -> Tensor:
        """Return the flat tensor that a file refers to."""
        kind, dtype, key, location, length, *view = pid
        known = kind == 'storage' and isinstance(dtype, torch.dtype)
        if self._storage is None or not known or any(view):
            raise Refused(f'a storage {pid!r}')
        return self._storage(dtype, key, location, length)

    def fill(self, value: Any, state: Any) -> None:
        """Set the state of an object that the file made; refuse all others."""
        if isinstance(value, Inert):
            return
        if type(value) is not OrderedDict or not isinstance(state, dict):
            raise Refused(f'a state for {value!r}')
        if '_metadata' in state:  # versions of the modules, in a state dict
            value._metadata = state['_metadata']  # type: ignore[attr-defined]

    def load_build(self) -> None:
        """Set the state of the object below the top of the stack."""
        state = self.stack.pop()
        self.fill(self.stack[-1], state)

    dispatch[pickle.BUILD[0]] = load_build


class InertUnpickler(RestrictedUnpickler):
    """Rebuilds tensors and containers; every other name stands for :class:`Inert`."""

    stand_in = Inert


def _ignored(*args) -> None:
    """The methods of a buffer, which every buffer has anyway."""


def _encode(text: str, encoding: str) -> bytes:
    """How pickle's protocol 2 writes bytes."""
    if encoding != 'latin1':
        raise Refused(f'encoding {encoding!r}')
    return text.encode('latin1')


def _empty_bytes() -> bytes:
    """How pickle's protocol 2 writes the content of an empty array."""
    return b''


def _dtype(code: str, align: bool = False, copy: bool = False) -> np.dtype:
    # Numbers and truth values alone. A copy, since a state may follow.
    if not re.fullmatch(r'[biufc]\d+', code):
        raise Refused(f'numbers of the type {code!r}')
    return np.dtype(code, copy=True)


def _reconstruct(kind: Any, shape: tuple, code: bytes) -> np.ndarray:
    """An empty array, which its state fills."""
    if kind != 'ndarray':
        raise Refused('an array of another class')
    return np.zeros(0, np.int8)


def _scalar(dtype: np.dtype, content: bytes) -> np.generic:
    return np.frombuffer(content, dtype, count=1)[0]


class TrainingUnpickler(RestrictedUnpickler):
    """Rebuilds what mmengine's runner saves: also arrays, numbers and scalars' logs."""

    allowed = {
        **RestrictedUnpickler.allowed,
        'mmengine.logging.history_buffer.HistoryBuffer': HistoryBuffer,
        'builtins.getattr': _ignored,
        '_codecs.encode': _encode,
        'builtins.bytes': _empty_bytes,
        'numpy.ndarray': 'ndarray',
        'numpy.dtype': _dtype,
        # Numpy 2 moved them; files have either name.
        **{
            f'numpy.{core}.multiarray.{name}': function
            for core in ('core', '_core')
            for name, function in (('_reconstruct', _reconstruct), ('scalar', _scalar))
        },
    }

    def fill(self, value: Any, state: Any) -> None:
        """Set the state of an object that the file made; refuse all others."""
        if isinstance(value, HistoryBuffer):
            known = ('_max_length', 'max_length', '_log_history', '_count_history')
            value.__setstate__({k: v for k, v in state.items() if k in known})
        elif isinstance(value, np.dtype):
            _, order, *parts = state
            if parts[:3] != [None, None, None]:  # no compound type
                raise Refused('a compound type')
            made: Any = value  # numpy's types lack the method
            made.__setstate__((3, order, None, None, None, -1, -1, 0))
        elif isinstance(value, np.ndarray):
            _, _, dtype, _, content = state
            if not isinstance(dtype, np.dtype) or not isinstance(content, bytes):
                raise Refused('an array of objects')
            value.__setstate__(state)
        else:
            super().fill(value, state)
