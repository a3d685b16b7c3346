"""Read the tensors of a file without running anything that is in it."""

from __future__ import annotations

import pickle
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmbam.utils.errors import InputError

# Where training codes keep their state dict. The weights of a student and of a teacher
# keep their names apart by these very words.
_WRAPPERS = ('state_dict', 'model')
_ROLES = ('student', 'teacher')


class NoWeightsError(ValueError):
    """A file that could be read holds no tensors where weights are looked for."""


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Read the weights of a checkpoint, which need not be trusted.

    Tensors are read with ``weights_only=True``. A file that holds other objects too, as
    those of mmengine's runner do, is read a second time with each of them replaced by
    an empty stand-in, so that no code of the file's choosing ever runs.

    Args:
        path (str | Path): A file of ``torch.save``, or ``.safetensors``. The state dict
            may be the file itself or its entry ``state_dict`` or ``model``; those of
            the entries ``student`` and ``teacher`` get these words as prefixes.

    Returns:
        dict[str, Tensor]: The weights by name, on the CPU.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f'There is no checkpoint file {str(path)!r}.')
    content = _read(path)
    while isinstance(content, Mapping):
        weights = _tensors_of(content)
        for role in _ROLES:
            nested = content.get(role)
            if isinstance(nested, Mapping):
                nested = _tensors_of(nested)
                weights.update({f'{role}.{name}': nested[name] for name in nested})
        if weights:
            return weights
        content = next((content[w] for w in _WRAPPERS if w in content), None)
    raise NoWeightsError(
        f'{str(path)!r} holds no weights: they are looked for at the top of the file '
        f'and under {", ".join(_WRAPPERS + _ROLES)}.'
    )


def _tensors_of(content: Mapping) -> dict[str, Tensor]:
    return {
        name: value.detach()
        for name, value in content.items()
        if isinstance(name, str) and isinstance(value, Tensor)
    }


def _read(path: Path) -> Any:
    if path.suffix == '.safetensors':
        from safetensors.torch import load_file

        return load_file(path)
    refuse_archive(path)
    try:
        try:
            return torch.load(path, map_location='cpu', weights_only=True)
        except pickle.UnpicklingError:
            return torch.load(
                path, map_location='cpu', weights_only=False, pickle_module=_InertPickle
            )
    # Damaged files raise about anything; the cause stays attached.
    except Exception as error:
        raise InputError(
            f'{str(path)!r} is not a checkpoint that torch can read '
            f'({type(error).__name__}).'
        ) from error


def refuse_archive(path: Path) -> None:
    """Refuse the forms that get past ``weights_only`` before torch 2.6.

    See CVE-2025-32434.
    """
    if _is_torchscript(path) or tarfile.is_tarfile(path):
        raise InputError(
            f'{str(path)!r} is a TorchScript or tar archive, which cannot be read '
            'without running what is in it: save its state dict with torch.save.'
        )


def _is_torchscript(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(Path(n).name == 'constants.pkl' for n in archive.namelist())


class _Inert:
    """Takes the place of every object that is not a tensor or a container."""

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, *args, **kwargs):
        pass

    def _nothing(self, *args, **kwargs):
        return None

    # What unpickling calls on an object that is being filled.
    __call__ = __setstate__ = __setitem__ = append = extend = add = _nothing


class _InertUnpickler(pickle.Unpickler):
    """Knows how to rebuild tensors; every other name of the file is inert."""

    _allowed = {
        ('collections', 'OrderedDict'),
        ('torch', 'Size'),
        ('torch._utils', '_rebuild_tensor'),
        ('torch._utils', '_rebuild_tensor_v2'),
        ('torch._utils', '_rebuild_parameter'),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            return _Inert
        found = super().find_class(module, name)
        # A new function each time: a pickle may set attributes of what it names.
        return found if isinstance(found, type) else lambda *args: found(*args)


class _InertPickle:
    """What ``torch.load`` expects of a ``pickle_module``."""

    Unpickler = _InertUnpickler

    @staticmethod
    def load(file, **kwargs):
        return _InertUnpickler(file, **kwargs).load()
