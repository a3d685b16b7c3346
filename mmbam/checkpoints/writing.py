"""Write files that are complete or absent, and know later whether one changed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mmengine.fileio import LocalBackend, register_backend

#: Checksums of the checkpoints beside it: ``sha256sum -c checkpoints.sha256``.
CHECKSUMS = 'checkpoints.sha256'
#: End of the name of a file that is being written.
PART = '.part'


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file beside its place, flush it to the disk, and rename it.

    Whenever the process or the machine dies, the place holds the old file or the new
    one, whole.

    Args:
        path (str | Path): The place. Its folder is made if needed.
        content (bytes): All of the file.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + PART)
    try:
        with open(part, 'wb') as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def write_checkpoint(path: str | Path, content: bytes) -> None:
    """Write a checkpoint as :func:`write_file` does, and note its checksum.

    Args:
        path (str | Path): The place.
        content (bytes): All of the file.
    """
    path = Path(path)
    found = {
        name: sums
        for name, sums in read_checksums(path.parent).items()
        if path.with_name(name).is_file()
    }
    # Until the new file is in place, the checksum of an old one of that name counts.
    new = hashlib.sha256(content).hexdigest()
    found[path.name] = [*found.get(path.name, [])[-1:], new]
    lines = [f'{value}  {name}\n' for name, sums in found.items() for value in sums]
    write_file(path.with_name(CHECKSUMS), ''.join(lines).encode())
    write_file(path, content)


def read_checksums(folder: str | Path) -> dict[str, list[str]]:
    """Read the checksums of a folder's checkpoints.

    Returns:
        dict[str, list[str]]: SHA-256 sums by file name. A file that was written twice
        may have two, of which either is right.
    """
    path = Path(folder, CHECKSUMS)
    found: dict[str, list[str]] = {}
    if path.is_file():
        for line in path.read_text('utf-8', errors='replace').splitlines():
            value, _, name = line.partition('  ')
            found.setdefault(name, []).append(value)
    return found


class SafeLocalBackend(LocalBackend):
    """mmengine's backend of local files, with files that are complete or absent."""

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write bytes, and note the checksum if they are a checkpoint."""
        if str(filepath).endswith('.pth'):
            write_checkpoint(filepath, obj)
        else:
            write_file(filepath, obj)

    def put_text(self, obj: str, filepath: str | Path, encoding: str = 'utf-8') -> None:
        """Write text."""
        write_file(filepath, obj.encode(encoding))


def use_safe_saving() -> None:
    """Make mmengine write its local files through this module."""
    register_backend('local', SafeLocalBackend, force=True, prefixes='')


def _flush_folder(folder: Path) -> None:
    # Without this the new name may be lost when the machine dies.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
