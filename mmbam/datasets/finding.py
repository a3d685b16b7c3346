"""Find the image files of a folder, and say what was found and what was not."""

from __future__ import annotations

import logging
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mmengine.logging import print_log

from mmbam.utils.errors import InputError
from mmbam.utils.files import printable

#: Endings of the files that count as images, in any mix of upper and lower case.
SUFFIXES = (
    '.jpg', '.jpeg', '.jpe', '.jfif', '.png', '.bmp', '.ppm', '.pgm', '.pbm', '.pnm',
    '.tif', '.tiff', '.webp', '.gif', '.avif', '.jp2', '.npy', '.npz', '.dcm',
)  # fmt: skip
#: Number of endings, or of names, that a message lists.
_MOST = 5


@dataclass
class Found:
    """The files of a folder that have certain endings, and what else there is.

    Args:
        root (str): The folder.
        names (list[str]): Paths of the files relative to the folder, sorted.
        others (Counter): Number of other files by their ending.
        hidden (int): Number of files and folders whose name starts with a dot.
        irregular (list[str]): Names that would count, but are no regular files, such as
            pipes, devices and links to nothing.
        closed (list[str]): Folders that may not be read.
    """

    root: str
    names: list[str] = field(default_factory=list)
    others: Counter = field(default_factory=Counter)
    hidden: int = 0
    irregular: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        images = 'image' if len(self.names) == 1 else 'images'
        return f'{len(self.names):,} {images} in {printable(self.root)}{self.ignored}'

    @property
    def ignored(self) -> str:
        """What was not taken, as ' (ignored: 3 .txt, 12 hidden)', or nothing."""
        ranked = sorted(self.others.items(), key=lambda item: (-item[1], item[0]))
        parts = [
            f'{number:,} {printable(ending) or "without ending"}'
            for ending, number in ranked[:_MOST]
        ]
        if len(ranked) > _MOST:
            parts.append(f'{sum(number for _, number in ranked[_MOST:]):,} others')
        if self.hidden:
            parts.append(f'{self.hidden:,} hidden')
        return f' (ignored: {", ".join(parts)})' if parts else ''

    def log(self) -> None:
        """Log one line with the numbers, and warn of what could not be looked at."""
        print_log(str(self), 'current')
        for names, what in (
            (self.irregular, 'that are no regular files'),
            (self.closed, 'folders that may not be read'),
        ):
            if names:
                shown = ', '.join(map(printable, sorted(names)[:_MOST]))
                more = ' ...' if len(names) > _MOST else ''
                print_log(
                    f'Passed over {len(names):,} {what}: {shown}{more}',
                    'current',
                    logging.WARNING,
                )


def find_files(root: str | Path) -> Found:
    """Find the files of a folder and its sub-folders that end with :data:`SUFFIXES`.

    Endings count in any case. Hidden files and folders are left out. Links are
    followed, except for those to a folder that they are in.
    """
    root = os.fspath(root)
    if not os.path.isdir(root):
        raise InputError(f'There is no folder {printable(root)!r}.')
    found = Found(root)
    # Folders to look at, each with the folders it is in.
    stack: list[tuple[str, tuple]] = [('', ())]
    while stack:
        prefix, above = stack.pop()
        place = os.path.join(root, prefix)
        try:
            status = os.stat(place)
            here = status.st_dev, status.st_ino
            entries = os.scandir(place)
        except PermissionError:
            found.closed.append(place)
            continue
        if here in above:
            entries.close()
            continue
        with entries:
            for entry in entries:
                if entry.name[0] == '.':
                    found.hidden += 1
                elif _is(entry, os.DirEntry.is_dir):
                    stack.append((f'{prefix}{entry.name}/', (*above, here)))
                elif not entry.name.lower().endswith(SUFFIXES):
                    found.others[os.path.splitext(entry.name)[1].lower()] += 1
                elif _is(entry, os.DirEntry.is_file):
                    found.names.append(prefix + entry.name)
                else:
                    found.irregular.append(entry.path)
    found.names.sort()
    return found


def find_images(path: str | Path) -> list[Path]:
    """Find the image at a path, or all images in a folder and its sub-folders.

    A single image may have any name. The paths are sorted, and at least one.
    """
    path = Path(path)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f'There is no image or folder {printable(path)!r}.')
    return [path / name for name in list_images(path)]


def list_images(folder: str | Path) -> list[str]:
    """Find all images in a folder as sorted relative paths; log their number."""
    found = find_files(folder)
    if not found.names:
        raise InputError(
            f'The folder {printable(folder)!r} holds no images '
            f'({", ".join(SUFFIXES)}){found.ignored}.'
        )
    found.log()
    return found.names


def _is(entry: os.DirEntry, kind) -> bool:
    try:
        return kind(entry)
    except OSError:  # such as a link to itself
        return False
