"""Read the tensors of a file without running anything that is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from mmbam.utils.errors import InputError

from .files import read_file
from .meta import config_of
from .transformers_names import from_transformers
from .unpickling import InertUnpickler, Refused

# Entries that hold a state dict. Those of a student and of a teacher become prefixes,
# which keep the names of their weights apart.
_WRAPPERS = ('state_dict', 'model')
_ROLES = ('student', 'teacher')


# Names of the weights in a folder of Hugging Face, the first that is there. The index
# lists the files of large networks.
_IN_FOLDER = ('model.safetensors', 'pytorch_model.bin', 'model.safetensors.index.json')


class NoWeightsError(InputError):
    """A readable file that holds no weights."""


class Checkpoint(NamedTuple):
    """The weights in a checkpoint by name, and what came with them.

    Args:
        weights (dict): Weights by name.
        config (dict): That of mmengine's runner, or the content of ``config.json``;
            empty if there is none.
        meta (Mapping): Other notes of mmengine's runner, such as ``epoch``.
    """

    weights: dict[str, Tensor]
    config: dict
    meta: Mapping[str, Any] = {}


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Read the weights of a checkpoint, which need not be trusted.

    Every object in the file that is no tensor or container becomes an empty stand-in,
    so that no code of the file's choosing ever runs.

    Args:
        path (str | Path): A file of ``torch.save``, ``.safetensors``, or a folder of
            Hugging Face (``config.json`` and ``model.safetensors``). The state dict may
            be the file itself or its entry ``state_dict`` or ``model``; those of the
            entries ``student`` and ``teacher`` get these words as prefixes. Names of
            transformers' ViTs become timm's.

    Returns:
        dict[str, Tensor]: The weights by name, on the CPU.
    """
    return read_checkpoint(path).weights


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read what :func:`read_weights` reads, and the config in it or beside it.

    Args:
        path (str | Path): See :func:`read_weights`.

    Returns:
        Checkpoint: The weights and the rest.
    """
    path = Path(path)
    meta: Any = {}
    if path.is_dir():
        weights, config = _read_folder(path), _read_json(path / 'config.json')
    elif path.is_file():
        content = _read(path)
        weights, config = _find_weights(content, path), config_of(content)
        meta = content.get('meta') if isinstance(content, Mapping) else {}
    else:
        raise InputError(f'There is no checkpoint file {str(path)!r}.')
    meta = meta if isinstance(meta, Mapping) else {}
    return Checkpoint(from_transformers(weights), config, meta)


def _find_weights(content: Any, path: Path) -> dict[str, Tensor]:
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


def _read_folder(folder: Path) -> dict[str, Tensor]:
    found = [folder / name for name in _IN_FOLDER if (folder / name).is_file()]
    if not found:
        raise InputError(
            f'The folder {str(folder)!r} is no checkpoint: it must hold '
            'model.safetensors and config.json, as those of Hugging Face do.'
        )
    if found[0].suffix != '.json':
        return _find_weights(_read(found[0]), found[0])
    listed = _read_json(found[0]).get('weight_map')
    names = set(listed.values()) if isinstance(listed, dict) else set()
    for name in names:
        # A name could lead out of the folder.
        if not isinstance(name, str) or Path(name).name != name:
            raise InputError(
                f'{str(found[0])!r} lists {name!r}, which is no file name.'
            )
    weights = {}
    for name in sorted(names):
        weights.update(read_weights(folder / name))
    if not weights:
        raise NoWeightsError(f'{str(found[0])!r} lists no weights.')
    return weights


def _read_json(path: Path) -> dict:
    """Content of a file that should hold a dict; empty if there is no such file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text('utf-8'))
    except (ValueError, RecursionError) as error:
        raise InputError(f'{str(path)!r} is no JSON file ({error}).') from error
    if not isinstance(content, dict):
        raise InputError(f'{str(path)!r} must hold a dict.')
    return content


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
