"""Load the checkpoints of mmengine's runner without running what a file may hold.

A training checkpoint holds more than tensors: mmengine's log of scalars and numbers of
numpy. Older torch loads any object, and with it any code; torch since 2.6 refuses all
of them, and then mmengine's fork loads the file with the check turned off. This module
loads what the runner itself writes and nothing else, for any version of torch and numpy
that wrote or reads the file.
"""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
import torch

from mmbam.utils.errors import InputError

from .files import read_file
from .reading import load_safetensors, read_weights
from .unpickling import Refused, TrainingUnpickler


def load_training_checkpoint(
    path: str | Path | BinaryIO, map_location: Any = 'cpu'
) -> dict:
    """Load all that mmengine's runner saved, to resume from.

    Args:
        path (str | Path | BinaryIO): A file of ``torch.save``.
        map_location (Any): Where the tensors go, see
            :func:`mmbam.checkpoints.files.read_file`. Defaults to the CPU.

    Raises:
        InputError: There is no such file, it is damaged, or it holds other objects than
            those that mmengine's runner saves.
    """
    name = repr(str(path)) if isinstance(path, (str, Path)) else 'The stream'
    try:
        content = read_file(path, TrainingUnpickler, map_location)
    except Refused as error:
        raise InputError(
            f'{name} holds other objects than those of a training checkpoint '
            f'({error}), and could run code: {_advice(path)}.'
        ) from error
    if not isinstance(content, dict):
        raise InputError(f'{name} holds no dict, as every checkpoint does.')
    # A text that mmengine's runner would run as a config when it resumes.
    meta = content.get('meta')
    if isinstance(meta, dict):
        meta.pop('config', None)
    return content


def use_safe_loading() -> None:
    """Make ``torch.load`` read what :func:`load_training_checkpoint` reads, only that.

    In the whole process, because mmengine, timm and torch.hub open files by themselves
    (``load_from``, ``init_cfg``, http addresses, timm's ``checkpoint_path``). torch's
    own function stays there as ``torch.load.__wrapped__``.
    """
    torch.load = torch.serialization.load = _load
    torch.storage._load_from_bytes = _load_from_bytes
    safetensors.torch.load_file = load_safetensors  # type: ignore[assignment]


# Tensors arrive from another rank in a pickle, which calls this (``mmengine.dist``). No
# unpickler of this package allows the name.
@functools.wraps(torch.storage._load_from_bytes)
def _load_from_bytes(content: bytes) -> Any:
    return _load.__wrapped__(io.BytesIO(content), weights_only=False)


@functools.wraps(torch.load)
def _load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> dict:
    return load_training_checkpoint(f, map_location)


def _advice(path: str | Path | BinaryIO) -> str:
    """How to go on without the other objects."""
    try:
        read_weights(path)  # type: ignore[arg-type]
    except (InputError, TypeError):
        return 'no weights can be taken out of it'
    return (
        'keep its weights alone '
        '(torch.save(mmbam.checkpoints.read_weights(FILE), NEW_FILE))'
    )
