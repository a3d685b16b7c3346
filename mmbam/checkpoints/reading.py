"""Read the tensors of a file without running anything that is in it."""

from __future__ import annotations

import pickle
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmbam.utils.errors import InputError

from .unpickling import InertUnpickler, pickle_module

# Entries that hold a state dict. Those of a student and of a teacher become prefixes,
# which keep the names of their weights apart.
_WRAPPERS = ('state_dict', 'model')
_ROLES = ('student', 'teacher')


class NoWeightsError(InputError):
    """A readable file that holds no weights."""


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
                path,
                map_location='cpu',
                weights_only=False,
                pickle_module=pickle_module(InertUnpickler),
            )
    # Damaged files raise all kinds of errors; the cause stays attached.
    except Exception as error:
        raise InputError(
            f'{str(path)!r} is not a checkpoint that torch can read '
            f'({type(error).__name__}).'
        ) from error


def refuse_archive(path: Path) -> None:
    """Refuse archives that run code in spite of ``weights_only`` before torch 2.6.

    See CVE-2025-32434.

    Args:
        path (Path): A file that ``torch.load`` is to open.
    """
    if _is_torchscript(path) or tarfile.is_tarfile(path):
        raise InputError(
            f'{str(path)!r} is a TorchScript or tar archive, which cannot be read '
            'without running what is in it: save its state dict with torch.save.'
        )


def _is_torchscript(path: Path) -> bool:
    # By the reader that torch.load uses. Python's zipfile takes some files that this
    # one opens for no zip at all.
    try:
        reader: Any = torch._C.PyTorchFileReader(str(path))
        records = reader.get_all_records()
    except RuntimeError:  # no zip
        return False
    return any(Path(record).name == 'constants.pkl' for record in records)
