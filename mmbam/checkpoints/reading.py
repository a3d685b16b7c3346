"""Read the tensors of a file without running anything that is in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from mmbam.utils.errors import InputError

from .files import read_file
from .unpickling import InertUnpickler, Refused

# Entries that hold a state dict. Those of a student and of a teacher become prefixes,
# which keep the names of their weights apart.
_WRAPPERS = ('state_dict', 'model')
_ROLES = ('student', 'teacher')


class NoWeightsError(InputError):
    """A readable file that holds no weights."""


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Read the weights of a checkpoint, which need not be trusted.

    Every object in the file that is no tensor or container becomes an empty stand-in,
    so that no code of the file's choosing ever runs.

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


def load_safetensors(
    filename: str | Path, device: str | int = 'cpu', **kwargs: Any
) -> dict[str, Tensor]:
    """Read a file of safetensors, whose own error does not name the file."""
    try:
        return load_file(filename, device, **kwargs)
    except SafetensorError as error:
        raise InputError(
            f'{str(filename)!r} is not a checkpoint of safetensors ({error}).'
        ) from error


def _tensors_of(content: Mapping) -> dict[str, Tensor]:
    return {
        name: value.detach()
        for name, value in content.items()
        if isinstance(name, str) and isinstance(value, Tensor)
    }


def _read(path: Path) -> Any:
    if path.suffix == '.safetensors':
        return load_safetensors(path)
    try:
        return read_file(path, InertUnpickler)
    except Refused as error:
        raise InputError(
            f'{str(path)!r} is not a checkpoint of plain tensors (it has {error}): '
            'save its state dict with torch.save.'
        ) from error
