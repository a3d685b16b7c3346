"""Pack a folder of images into shards."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import cv2
from torch.utils.data import DataLoader, Dataset

from mmbam.utils.errors import InputError
from mmbam.utils.files import disk_errors, locked, printable, write_text
from mmbam.utils.progress import with_progress

from ..decoding import require_regular
from ..finding import list_images
from .index import NAME, PACK, build_index, find_shards
from .shrink import shrink
from .writer import ShardWriter

UNREADABLE = 'unreadable.txt'
_VERSION = 1


def pack_images(
    images: str | Path,
    out: str | Path,
    short_side: int = 512,
    quality: int = 92,
    shard_size: int = 2**30,
    workers: int | None = None,
) -> dict[str, Any]:
    """Pack a folder of images into tar shards of WebDataset's form.

    Large images become JPEGs of a shorter side of ``short_side`` pixels. Small ones,
    and those of more than 8 bits or other bands than a color's, keep their bytes. The
    result does not depend on the number of workers or on interruptions: the same call
    goes on where it was stopped. Images that cannot be read are listed in
    ``unreadable.txt`` and left out.

    Args:
        images (str | Path): Folder of images. The name of a folder in it is the class
            of the images below.
        out (str | Path): Folder for the shards: new, empty, or of the same call.
        short_side (int): Length of the shorter side in pixels. Defaults to 512.
        quality (int): Quality of JPEGs that are made, from 1 to 100. Defaults to 92.
        shard_size (int): Number of bytes in a shard, at most, unless one image has
            more. Defaults to 1 GiB.
        workers (int, optional): Number of processes. 0 works in this one. Defaults to
            None, the number of CPUs.

    Returns:
        dict: Numbers of ``packed`` and ``unreadable`` images and of ``shards``.
    """
    _check(short_side, quality, shard_size, workers)
    names = list_images(images)
    if workers is None:
        workers = len(os.sched_getaffinity(0))
    out = Path(out)
    digest = hashlib.sha256(b'\0'.join(map(os.fsencode, names))).hexdigest()
    settings = dict(
        version=_VERSION,
        short_side=short_side,
        quality=quality,
        shard_size=shard_size,
        images=len(names),
        names_sha256=digest,
    )
    with disk_errors(out, 'Make room and run the same command again: it goes on.'):
        out.mkdir(parents=True, exist_ok=True)
        with locked(out / '.lock', wait=False) as alone:
            if not alone:
                raise InputError(f'Another mmbam pack is writing to {str(out)!r}.')
            state = _begin(out, settings)
            if not state['complete']:
                state = _pack(os.fspath(images), names, out, settings, workers)
                write_text(out / PACK, json.dumps(state, indent=1) + '\n')
    return {key: state[key] for key in ('packed', 'unreadable', 'shards')}


def _pack(
    images: str, names: list[str], out: Path, settings: dict, workers: int
) -> dict[str, Any]:
    digits = max(6, len(str(len(names) - 1)))
    writer = ShardWriter(out, settings['shard_size'], digits)
    done = set(writer.done)
    first = max(done, default=-1) + 1
    # Left out before an interruption: why is found out again.
    missing = [number for number in range(first) if number not in done]
    again = _Shrunk(images, names, missing, settings)
    retried = (again[place] for place in range(len(again)))
    failed = {number: reason for number, _, _, reason in retried if reason}
    for number in set(missing) - set(failed):
        failed[number] = 'it could not be read at first'
    shrunk = _Shrunk(images, names, range(first, len(names)), settings)
    if first:
        print(f'going on behind {first:,} images')
    loader = DataLoader(
        shrunk,
        batch_size=None,
        num_workers=workers,
        collate_fn=tuple,
        worker_init_fn=_one_thread,
    )
    for number, content, new, reason in with_progress(loader, len(shrunk), 'Packing'):
        if reason:
            failed[number] = reason
            continue
        name = names[number]
        folder, slash, _ = name.partition('/')
        suffix = '.jpg' if new else os.path.splitext(name)[1].lower()
        writer.add(number, content, suffix, name, folder if slash else None)
    writer.close()
    if len(failed) == len(names):
        raise InputError(
            f'None of the {len(names):,} images in {printable(images)!r} can be read; '
            f'the first: {failed[0]}.'
        )
    lines = [f'{printable(names[n])}\t{failed[n]}\n' for n in sorted(failed)]
    if lines:
        write_text(out / UNREADABLE, ''.join(lines))
    build_index(out, find_shards(out), out / NAME)
    counts = dict(packed=len(names) - len(failed), unreadable=len(failed))
    return dict(settings, complete=True, shards=writer.shards, **counts)


def _check(short_side: int, quality: int, shard_size: int, workers: int | None) -> None:
    for name, value, low, high in (
        ('short_side', short_side, 1, 65500),
        ('quality', quality, 1, 100),
        ('shard_size', shard_size, 1, 2**50),
        ('workers', 0 if workers is None else workers, 0, 4096),
    ):
        if not low <= value <= high:
            raise InputError(f'{name} must be from {low} to {high}, but got {value}.')


def _begin(out: Path, settings: dict) -> dict[str, Any]:
    """What an earlier call with the same settings left, or a new beginning."""
    for name in os.listdir(out):  # of a file that was being written at a kill
        if name[0] == '.' and '.part' in name and not name.endswith('.tar.part'):
            (out / name).unlink()
    path = out / PACK
    if not path.exists():
        others = sorted(name for name in os.listdir(out) if name[0] != '.')
        if others:
            raise InputError(
                f'{str(out)!r} must be new or empty, but it holds '
                f'{printable(others[0])!r}.'
            )
        state = dict(settings, complete=False)
        write_text(path, json.dumps(state, indent=1) + '\n')
        return state
    state = json.loads(path.read_text())
    for key, value in settings.items():
        if state.get(key) != value:
            what = f'{key}={state.get(key)}, not {value}'
            if key == 'names_sha256':
                what = 'images of other names'
            raise InputError(
                f'{str(out)!r} was begun with {what}: name another folder, or remove '
                'this one.'
            )
    return state


class _Shrunk(Dataset):
    """Images made smaller, each with its number, or with why it cannot be read."""

    def __init__(self, folder: str, names: list[str], numbers, settings: dict) -> None:
        self.folder, self.names, self.numbers = folder, names, numbers
        self.short_side, self.quality = settings['short_side'], settings['quality']

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, place: int) -> tuple[int, bytes, bool, str]:
        number = self.numbers[place]
        path = os.path.join(self.folder, self.names[number])
        try:
            require_regular(path)
            content = Path(path).read_bytes()
            return number, *shrink(content, self.short_side, self.quality), ''
        except Exception as error:  # decoders raise many types; all are listed
            reason = ' '.join(f'{type(error).__name__}: {error}'.split())
            return number, b'', False, reason


def _one_thread(worker: int) -> None:
    cv2.setNumThreads(0)
