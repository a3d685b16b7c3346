"""Write files as a whole or not at all, and never over what is being read."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from .errors import ExpectedError, InputError

_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


@contextmanager
def written(path: str | Path) -> Iterator[Path]:
    """Give the name of a file beside ``path`` to write, and rename it at the end.

    If writing fails, what was at ``path`` stays and nothing is left beside it. The
    folder is made if need be. Errors are those of :func:`disk_errors`.
    """
    path = Path(path)
    part = path.with_name(f'.{path.name}.{os.getpid()}.part{path.suffix}')
    try:
        with disk_errors(path, 'Make room or name another place.'):
            require_writable(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            yield part
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def disk_errors(path: str | Path, advice: str) -> Iterator[None]:
    """Say in one sentence why a file or folder was not written.

    A full disk, or a file larger than is allowed, gives an ExpectedError with
    ``advice``; anything else an InputError.
    """
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise ExpectedError(
                f'{str(path)!r} was not written: {os.strerror(error.errno)}. {advice}'
            ) from error
        raise InputError(
            f'{str(path)!r} cannot be written: {error.strerror or error}.'
        ) from error


def write_text(path: str | Path, text: str) -> None:
    """Write a text file as a whole or not at all."""
    with written(path) as part:
        part.write_text(text, encoding='utf-8')


def save_tensors(content: Any, path: str | Path) -> None:
    """Write a file of ``torch.save`` as a whole or not at all."""
    # In memory first: torch's own writer hides why it failed.
    buffer = io.BytesIO()
    torch.save(content, buffer)
    with written(path) as part:
        part.write_bytes(buffer.getbuffer())


@contextmanager
def locked(path: str | Path, wait: bool = True) -> Iterator[bool]:
    """Let one process at a time run a block.

    The kernel holds the lock, so that a process that was killed leaves none.

    Args:
        path (str | Path): File for the lock, which is removed afterwards.
        wait (bool): Whether to wait for another process to leave. Defaults to True.

    Yields:
        bool: Whether this process has the lock. Also true on a disk without locks.
    """
    while True:
        with open(path, 'ab') as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except OSError as error:
                if not wait and error.errno in (errno.EACCES, errno.EAGAIN):
                    yield False
                    return
            if not _is_at(file, path):
                continue  # who had the lock removed the file: others lock a new one
            try:
                yield True
            finally:
                Path(path).unlink(missing_ok=True)
            return


def _is_at(file: Any, path: str | Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def printable(path: str | Path) -> str:
    """Return a path as text for messages; bytes that are no UTF-8 become \\xfc."""
    return os.fsencode(path).decode('utf-8', 'backslashreplace')


def save_safetensors(
    weights: dict[str, Tensor], path: str | Path, metadata: dict[str, str] | None = None
) -> None:
    """Write a file of safetensors as a whole or not at all."""
    # Storages that several weights share are refused, and clones share none.
    own = {name: value.clone().contiguous() for name, value in weights.items()}
    content = safetensors.torch.save(own, metadata)
    with written(path) as part:
        part.write_bytes(content)


def require_writable(path: str | Path | None, *read: str | Path | None) -> None:
    """Refuse a file to write that is a folder, or that is one of the files to read.

    Writes nothing itself, so that a command can ask before it starts.

    Args:
        path (str | Path, optional): File to write; None is fine.
        *read (str | Path, optional): Files that the command reads.
    """
    if path is None:
        return
    path = Path(path)
    if path.is_dir():
        raise InputError(f'{str(path)!r} is a folder, but a file is to be written.')
    for other in read:
        if other and path.exists() and os.path.exists(other):
            if os.path.samefile(path, other):
                raise InputError(
                    f'{str(path)!r} is read and would be overwritten: name another '
                    'file to write.'
                )
    # The folder itself may have to be made, later and only if there is a result.
    folder = next(place for place in path.absolute().parents if place.exists())
    if not folder.is_dir():
        raise InputError(
            f'{str(path)!r} cannot be written: {str(folder)!r} is not a folder.'
        )
    if not os.access(folder, os.W_OK):
        raise InputError(
            f'{str(path)!r} cannot be written: {str(folder)!r} is not writable.'
        )


def sha256(path: str | Path) -> str:
    """Return the checksum of a file, as ``sha256sum`` prints it."""
    digest = hashlib.sha256()
    with open(path, 'rb') as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
