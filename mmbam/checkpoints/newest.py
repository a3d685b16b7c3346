"""The newest checkpoint of a run that is intact."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

from mmbam.utils.files import sha256

from .writing import read_checksums

#: Names under which a run saves its state. Not those of ``best_*`` checkpoints, which
#: hold no optimizer, nor ``healthy_*``, which are second names.
_NAME = re.compile(r'(epoch|iter|autosave_iter)_(\d+)\.pth')


def newest_checkpoint(
    folders: Iterable[str | Path], epoch_length: int
) -> tuple[Path | None, list[str]]:
    """Find the checkpoint with the most iterations that is intact.

    Args:
        folders (Iterable[str | Path]): Folders to look in.
        epoch_length (int): Number of iterations in an epoch, to compare the checkpoints
            of epochs with those of iterations.

    Returns:
        tuple[Path | None, list[str]]: The checkpoint, or None if there is none, and a
        phrase about each one that was passed over: its name and why.
    """
    found = []
    for folder in folders:
        for path in Path(folder).glob('*.pth'):
            match = _NAME.fullmatch(path.name)
            if match:
                length = epoch_length if match[1] == 'epoch' else 1
                # At the end of an epoch, that of the epoch is the later one.
                found.append((int(match[2]) * length, match[1] == 'epoch', path))
    passed_over: list[str] = []
    for *_, path in sorted(found, reverse=True):
        reason = damage(path)
        if reason is None:
            return path, passed_over
        passed_over.append(f'{path.name} ({reason})')
    return None, passed_over


def saved_checkpoints(folder: str | Path) -> list[Path]:
    """Find what a run saved every few epochs or iterations, the oldest first.

    Not the newest state alone, ``autosave_iter_*.pth``, nor second names.

    Args:
        folder (str | Path): Work directory of the run.
    """
    found = []
    for path in Path(folder).glob('*.pth'):
        match = _NAME.fullmatch(path.name)
        if match and match[1] in ('epoch', 'iter'):
            found.append((match[1], int(match[2]), path))
    return [path for *_, path in sorted(found)]


def damage(path: str | Path) -> str | None:
    """Say what is wrong with a checkpoint file.

    Args:
        path (str | Path): The file. Its checksum is compared with that in
            ``checkpoints.sha256`` beside it, if there is one; otherwise those inside
            the file are checked.

    Returns:
        str | None: A phrase, or None if the file is intact.
    """
    path = Path(path)
    if not zipfile.is_zipfile(path):  # the end of a zip file says that it is one
        return 'cut short, or no checkpoint'
    expected = read_checksums(path.parent).get(path.name)
    if expected:
        if sha256(path) in expected:
            return None
        return 'damaged: it is not what was written'
    # torch.load compares no checksum, not even those that every zip file holds.
    try:
        with zipfile.ZipFile(path) as file:
            part = file.testzip()
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
        return f'damaged: {error}'
    return None if part is None else f'damaged: the checksum of {part} is wrong'
