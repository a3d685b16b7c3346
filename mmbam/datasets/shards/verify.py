"""Check the shards of a pack by their checksums."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmbam.utils.errors import ExpectedError, InputError
from mmbam.utils.files import sha256
from mmbam.utils.progress import with_progress

from .index import NAME, PACK, ShardIndex
from .tar import Damage, Member, members
from .writer import SUMS, read_sums

# Number of problems that are listed.
_MOST = 20


def verify_pack(out: str | Path) -> int:
    """Check every shard of a pack, and with it every member, by its checksum.

    Args:
        out (str | Path): Folder that :func:`pack_images` made.

    Returns:
        int: Number of images.

    Raises:
        ExpectedError: Names the shards and the members that are damaged or missing.
    """
    out = Path(out)
    try:
        state = json.loads((out / PACK).read_text())
    except FileNotFoundError:
        raise InputError(f'{str(out)!r} is no pack: it has no {PACK}.') from None
    if not state['complete']:
        raise InputError(
            f'{str(out)!r} is not finished: run the same mmbam pack again.'
        )
    problems = [*_of_shards(out, state), *_of_index(out, state)]
    if problems:
        more = [f'and {len(problems) - _MOST:,} more'] if len(problems) > _MOST else []
        raise ExpectedError(
            f'{str(out)!r} is damaged:\n' + '\n'.join(problems[:_MOST] + more)
        )
    return state['packed']


def _of_shards(out: Path, state: dict[str, Any]) -> Iterator[str]:
    sums = read_sums(out)
    if len(sums) != state['shards']:
        yield f'{SUMS} lists {len(sums)} shards instead of {state["shards"]}'
    for name, value in with_progress(sums.items(), len(sums), 'Checking'):
        path = out / name
        if not path.exists():
            yield f'{name} is gone'
        elif sha256(path) != value:
            damaged = [f'{name}: {member}' for member in _damaged_members(path)]
            yield from damaged or [f'{name}: between the images']


def _damaged_members(path: Path) -> Iterator[str]:
    """Names of the images that are not what they were."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        image: Member | None = None
        for member in members(descriptor):
            if isinstance(member, Damage):
                yield f'{member.size:,} bytes from {member.offset:,} on'
            elif not member.name.endswith('.json'):
                image = member
            elif image is not None:
                content = os.pread(descriptor, image.size, image.offset)
                text = os.pread(descriptor, member.size, member.offset)
                if _crc32(text) != zlib.crc32(content):
                    yield image.name
                image = None
        if image is not None:
            yield image.name
    finally:
        os.close(descriptor)


def _crc32(text: bytes) -> int | None:
    try:
        return json.loads(text)['crc32']
    except (ValueError, KeyError, TypeError):
        return None


def _of_index(out: Path, state: dict[str, Any]) -> Iterator[str]:
    try:
        number = len(ShardIndex(out / NAME, out))
    except (FileNotFoundError, ValueError, KeyError):
        yield f'{NAME} is gone or damaged; the next training makes it again'
    else:
        if number != state['packed']:
            yield f'{NAME} has {number:,} images instead of {state["packed"]:,}'
