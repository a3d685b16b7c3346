"""Load the checkpoints of mmengine's runner without running what a file may hold.

A training checkpoint holds more than tensors: mmengine's log of scalars and numbers of
numpy. Older torch loads any object, and with it any code; torch since 2.6 refuses all
of them, and then mmengine's fork loads the file with the check turned off. This module
loads what the runner itself writes and nothing else, for any version of torch and numpy
that wrote or reads the file.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import torch
from mmengine.dist import barrier
from mmengine.logging import HistoryBuffer
from mmengine.runner import CheckpointLoader
from mmengine.utils import digit_version

from mmbam.utils.errors import InputError

from .reading import NoWeightsError, read_weights, refuse_archive
from .unpickling import RestrictedUnpickler, pickle_module

# Since 2.6 torch.serialization.safe_globals takes names beside objects.
_TORCH_HAS_SAFE_GLOBALS = digit_version(torch.__version__) >= digit_version('2.6.0')


def load_training_checkpoint(path: str | Path, map_location: Any = 'cpu') -> dict:
    """Load all that mmengine's runner saved, to resume from.

    Args:
        path (str | Path): A file of ``torch.save``.
        map_location: Where the tensors go, as in ``torch.load``. Defaults to the CPU.

    Raises:
        InputError: There is no such file, it is damaged, or it holds other objects than
            those that mmengine's runner saves.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise InputError(f'There is no checkpoint file {str(path)!r}.')
    refuse_archive(path)
    try:
        return _load(path, map_location)
    # Damaged files raise all kinds of errors; the cause stays attached.
    except Exception as error:
        advice = 'torch.save(mmbam.checkpoints.read_weights(FILE), NEW_FILE)'
        try:
            read_weights(path)  # says so if the file is damaged
        except NoWeightsError:
            advice = 'it has none'
        if not isinstance(error, pickle.UnpicklingError):
            raise
        raise InputError(
            f'{str(path)!r} holds other objects than those of a training checkpoint, '
            f'and could run code: keep its weights alone ({advice}).'
        ) from error


def use_safe_loading() -> None:
    """Make mmengine load files and http addresses through this module.

    Its other kinds of addresses (``torchvision://``, ``s3://`` ...) stay as they are.
    """
    register = CheckpointLoader.register_scheme
    register('', load_training_checkpoint, force=True)
    register(('http://', 'https://'), _load_from_http, force=True)


def _load_from_http(address: str, map_location: Any = None) -> dict:
    """Download a file, where mmengine would, and load it from there."""
    name = Path(urlparse(address).path).name
    path = Path(torch.hub.get_dir(), 'checkpoints', name)
    if int(os.environ.get('LOCAL_RANK', 0)) == 0 and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(address, str(path))
    barrier()
    return load_training_checkpoint(path, map_location)


def _statistic(owner: type, name: str) -> Any:
    """The only use of ``getattr`` in a checkpoint: the methods of a buffer."""
    if owner is not HistoryBuffer or name not in ('min', 'max', 'current', 'mean'):
        raise pickle.UnpicklingError(f'getattr of {name!r}')
    return getattr(owner, name)


def _encode(text: str, encoding: str) -> bytes:
    """How pickle's protocol 2 writes bytes."""
    if encoding != 'latin1':
        raise pickle.UnpicklingError(f'encoding {encoding!r}')
    return text.encode('latin1')


# Taken from numpy itself, since numpy 2 moved them; files have either name.
_RECONSTRUCT = np.zeros(0).__reduce__()[0]
_SCALAR = np.float64(0).__reduce__()[0]
_OURS = {
    'mmengine.logging.history_buffer.HistoryBuffer': HistoryBuffer,
    'builtins.getattr': _statistic,
    '_codecs.encode': _encode,
    'numpy.ndarray': np.ndarray,
    'numpy.dtype': np.dtype,
    **{
        f'numpy.{core}.multiarray.{name}': function
        for core in ('core', '_core')
        for name, function in (('_reconstruct', _RECONSTRUCT), ('scalar', _SCALAR))
    },
}


def _load(path: Path, map_location: Any) -> dict:
    # The state of a buffer also changes a dict that all buffers share: restore it.
    methods = dict(HistoryBuffer()._statistics_methods)
    try:
        return _load_listed(path, map_location)
    finally:
        HistoryBuffer._statistics_methods.clear()
        HistoryBuffer._statistics_methods.update(methods)


def _load_listed(path: Path, map_location: Any) -> dict:
    if _TORCH_HAS_SAFE_GLOBALS:
        codes = '?' + np.typecodes['AllInteger'] + np.typecodes['AllFloat']
        allowed: list[Any] = [(value, name) for name, value in _OURS.items()]
        allowed += {type(np.dtype(code)) for code in codes}
        safe_globals = torch.serialization.safe_globals  # type: ignore[attr-defined]
        with safe_globals(allowed):
            return torch.load(path, map_location=map_location, weights_only=True)
    # weights_only of older torch takes no list of its own.
    return torch.load(
        path,
        map_location=map_location,
        weights_only=False,
        pickle_module=pickle_module(TrainingUnpickler),
    )


class TrainingUnpickler(RestrictedUnpickler):
    """Rebuilds what mmengine's runner saves, as newer torch does."""

    allowed = {**RestrictedUnpickler.allowed, **_OURS}

    def may_fill(self, value: object) -> bool:
        """Whether a file may set the state of an object that it made."""
        if isinstance(value, np.dtype):
            # A compound type could pass the file's bytes off as pointers to objects.
            return value.kind in 'biufc'
        return isinstance(value, (HistoryBuffer, np.ndarray)) or super().may_fill(value)
