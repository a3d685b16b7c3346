"""An index of shards: any of millions of images is found at once."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.logging import print_log

from mmbam.utils.errors import InputError
from mmbam.utils.files import locked, printable, written
from mmbam.utils.progress import with_progress

from ..finding import SUFFIXES
from .listing import Listing, list_shard
from .tar import BLOCK, header_size

NAME = 'shards.index'
#: What `mmbam pack` did and has to do; see pack.py.
PACK = 'pack.json'
_VERSION = 1
# Name is the end of the image's name among all names.
_RECORD = np.dtype(
    [('offset', '<u8'), ('size', '<u8'), ('name', '<u8'), ('shard', '<u4')]
    + [('label', '<i4')]
)
# Number of shards that are listed at once: network disks answer slowly, but many.
_THREADS = 8
# Number of shards that a process keeps open. Many systems allow 1024 files.
_OPEN = 256


class ShardIndex:
    """Where each image of a folder of shards lies.

    The numbers are in a file that is mapped into memory, so that opening it takes no
    time and the workers of a loader share it. :func:`build_index` writes the file.
    """

    def __init__(self, path: str | Path, folder: str | Path) -> None:
        self.path, self.folder = os.fspath(path), os.fspath(folder)
        with open(self.path, 'rb') as file:
            header = json.loads(file.readline())
            start = file.tell()
        if not isinstance(header, dict) or header.get('version') != _VERSION:
            raise ValueError('this is no index of shards')
        self.shards = {name: size for name, size in header['shards']}
        self.classes: list[str] | None = header['classes']
        self.without_image: int = header['without_image']
        number, names = header['samples'], header['names']
        if os.path.getsize(self.path) != start + number * _RECORD.itemsize + names:
            raise ValueError('this index of shards is not complete')
        self._records: Any = np.empty(0, _RECORD)
        self._names: Any = b''
        if number:
            self._records = np.memmap(self.path, _RECORD, 'r', start, (number,))
            place = start + number * _RECORD.itemsize
            self._names = np.memmap(self.path, np.uint8, 'r', place, (names,))
        self._shard_paths = [os.path.join(self.folder, name) for name in self.shards]
        # Positions are given with each read, so forked processes can share the files.
        self._open = lru_cache(_OPEN)(_File)

    def __reduce__(self) -> tuple:  # a copy of the arrays would be no map
        return type(self), (self.path, self.folder)

    def __deepcopy__(self, memo: dict) -> ShardIndex:
        return self

    def __len__(self) -> int:
        return len(self._records)

    @property
    def labels(self) -> np.ndarray:
        """Label of each image, -1 where there is none."""
        return self._records['label']

    def name(self, number: int) -> str:
        """Return the path of an image: that of its shard, and its name in there."""
        start = int(self._records['name'][number - 1]) if number else 0
        stop = int(self._records['name'][number])
        member = os.fsdecode(self._names[start:stop].tobytes())
        return f'{self._shard_paths[self._records["shard"][number]]}/{member}'

    def read(self, number: int) -> bytes:
        """Read the file of an image.

        Raises:
            OSError: The shard is gone, too short, or holds something else here.
        """
        offset, size, _, shard, _ = self._records[number].item()
        file = self._open(self._shard_paths[shard])
        content = os.pread(file.descriptor, BLOCK + size, offset - BLOCK)
        if len(content) < BLOCK + size:
            raise OSError('the shard ends before the end of this member')
        if header_size(content[:BLOCK]) not in (size, 0):  # 0: a longer header has it
            raise OSError('the shard is damaged, or is another one than was indexed')
        return content[BLOCK:]


class _File:
    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, 'descriptor'):
            os.close(self.descriptor)


def find_shards(path: str | Path) -> list[str]:
    """Return the sorted names of the shards in a folder, or of the one at a path."""
    if os.path.isfile(path):
        return [os.path.basename(path)] if os.fspath(path).endswith('.tar') else []
    if not os.path.isdir(path):
        return []
    with os.scandir(path) as entries:
        return sorted(
            e.name for e in entries if e.name.endswith('.tar') and e.name[0] != '.'
        )


def is_shards(path: str | Path) -> bool:
    """Whether a path is a folder of shards, or one shard.

    A folder that also holds images or folders is no folder of shards: the archive may
    be the one that they came in.
    """
    if os.path.isfile(os.path.join(path, PACK)):
        return True
    if not find_shards(path):
        return False
    if os.path.isfile(path):
        return True
    with os.scandir(path) as entries:
        shown = [entry for entry in entries if entry.name[0] != '.']
    return not any(
        entry.name.lower().endswith(SUFFIXES) or entry.is_dir() for entry in shown
    )


def open_index(path: str | Path) -> ShardIndex:
    """Open the index of a folder of shards, or of one shard; make it first if need be.

    An index also counts if a shard is now shorter or gone: its images keep their
    numbers and are unreadable. If a shard is new or longer, the index is made again.
    """
    names = find_shards(path)
    folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
    whole = folder is path
    if whole and not _is_complete(folder):
        raise InputError(
            f'{printable(path)!r} is a pack that is not finished: run the same '
            'mmbam pack again.'
        )
    if not names:
        raise InputError(f'{printable(path)!r} is no shard and holds none (.tar).')
    sizes = {name: os.path.getsize(os.path.join(folder, name)) for name in names}
    places = _places(folder, None if whole else names[0])
    index = _open_first(places, folder, sizes)
    if index is None:
        place = places[0] if os.access(folder, os.W_OK) else places[1]
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.with_name(f'.{place.name}.lock')):  # by one of many ranks
            index = _open_first(places, folder, sizes)
            if index is None:
                build_index(folder, names, place)
                index = ShardIndex(place, folder)
    _warn(index, sizes)
    return index


def build_index(folder: str | Path, names: list[str], place: str | Path) -> None:
    """List the images of shards, in the order of ``names``, and write their index."""
    paths = [os.path.join(folder, name) for name in names]
    with ThreadPoolExecutor(_THREADS) as pool:
        listings = list(
            with_progress(pool.map(list_shard, paths), len(paths), 'Listing shards')
        )
    sizes = [len(listing.offsets) for listing in listings]
    records = np.empty(sum(sizes), _RECORD)
    records['shard'] = np.repeat(np.arange(len(names)), sizes)
    records['offset'] = _joined(listing.offsets for listing in listings)
    records['size'] = _joined(listing.sizes for listing in listings)
    lengths = (len(name) for listing in listings for name in listing.names)
    records['name'] = np.cumsum(np.fromiter(lengths, np.uint64, len(records)))
    records['label'], classes = _labels(listings)
    header: dict[str, Any] = dict(
        version=_VERSION,
        shards=[(name, os.path.getsize(path)) for name, path in zip(names, paths)],
        samples=len(records),
        names=int(records['name'][-1]) if len(records) else 0,
        classes=classes,
        without_image=sum(listing.without_image for listing in listings),
    )
    for name, listing in zip(names, listings):
        if listing.damage:
            print_log(
                f'{printable(os.path.join(folder, name))} is damaged: '
                f'{sum(d.size for d in listing.damage):,} bytes in '
                f'{len(listing.damage)} places belong to no member',
                'current',
                logging.ERROR,
            )
    with written(place) as part, open(part, 'wb') as file:
        file.write(json.dumps(header).encode() + b'\n')
        file.write(records.tobytes())
        for listing in listings:
            file.write(b''.join(listing.names))


def _joined(parts: Iterable) -> np.ndarray:
    return np.concatenate([np.frombuffer(part, np.uint64) for part in parts])


def _labels(listings: list[Listing]) -> tuple[np.ndarray, list[str] | None]:
    """Numbers of classes, and their names unless the shards have numbers."""
    found = [label for listing in listings for label in listing.labels]
    kinds = {type(label) for label in found}
    if str not in kinds:
        return np.array([-1 if label is None else label for label in found]), None
    classes = sorted({str(label) for label in found if label is not None})
    numbers: dict[str | None, int] = {name: i for i, name in enumerate(classes)}
    return np.array([-1 if n is None else numbers[str(n)] for n in found]), classes


def _places(folder: str | Path, shard: str | None) -> list[Path]:
    """Where an index may be: beside the shards, or in the user's cache."""
    name = NAME if shard is None else f'{shard}.index'
    real = os.path.join(os.path.realpath(folder), shard or '')
    cache = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:24]
    return [Path(folder, name), Path(cache, 'mmbam', f'{digest}.index')]


def _open_first(
    places: list[Path], folder: str | Path, sizes: dict[str, int]
) -> ShardIndex | None:
    """The first index that knows all shards, each as large as it is or larger."""
    for place in places:
        try:
            index = ShardIndex(place, folder)
        except (FileNotFoundError, ValueError, KeyError):  # none, or a broken one
            continue
        if all(size <= index.shards.get(name, -1) for name, size in sizes.items()):
            return index
    return None


def _warn(index: ShardIndex, sizes: dict[str, int]) -> None:
    damaged = [name for name, size in index.shards.items() if sizes.get(name) != size]
    if damaged:
        print_log(
            f'Shards in {printable(index.folder)} are shorter than when they were '
            f'indexed, or gone: {", ".join(map(printable, damaged))}. Their images '
            f'count as unreadable; remove {printable(index.path)} to list them anew.',
            'current',
            logging.ERROR,
        )


def _is_complete(folder: str | Path) -> bool:
    try:
        return json.loads(Path(folder, PACK).read_text()).get('complete') is True
    except FileNotFoundError:  # the shards of others
        return True
