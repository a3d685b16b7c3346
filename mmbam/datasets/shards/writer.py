"""Write shards, so that a killed process can go on with the same bytes; check them."""

from __future__ import annotations

import json
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmbam.utils.errors import ExpectedError, InputError
from mmbam.utils.files import sha256, write_text
from mmbam.utils.progress import with_progress

from .index import NAME, PACK, ShardIndex
from .tar import BLOCK, Damage, Member, members

SUMS = 'SHA256SUMS'
# Number of problems that are listed.
_MOST = 20


class ShardWriter:
    """Samples of an image and a ``.json``, in shards of a certain size.

    A shard gets its name once it is complete. What a process that was killed wrote of
    the next one is kept up to the last complete sample.

    Args:
        folder (str | Path): Folder of the shards.
        shard_size (int): Number of bytes above which no sample is added to a shard.
        digits (int): Number of digits in a sample's name.

    Attributes:
        done (list[int]): Numbers of the samples that were there already.
    """

    def __init__(self, folder: str | Path, shard_size: int, digits: int) -> None:
        self.folder, self.shard_size, self.digits = Path(folder), shard_size, digits
        self.done: list[int] = []
        self._sums = read_sums(self.folder)
        self._shard = 0
        while self._path.exists():
            if self._path.name not in self._sums:
                self._add_sum()
            with open(self._path, 'rb') as file:
                self._take_over(file.fileno(), check=False)
            self._shard += 1
        # Unbuffered: a sample is written with one call.
        mode = 'r+b' if self._part.exists() else 'w+b'
        self._file = open(self._part, mode, buffering=0)
        self._size = self._take_over(self._file.fileno(), check=True)
        self._file.truncate(self._size)
        self._file.seek(self._size)

    @property
    def shards(self) -> int:
        """Number of complete shards."""
        return self._shard

    def add(
        self, number: int, content: bytes, suffix: str, path: str, label: str | None
    ) -> None:
        """Write a sample, whose number must be above all before.

        ``suffix`` is the ending of the name of the image file, such as '.jpg'; ``path``
        is where the original image was; ``label`` is the name of its class.
        """
        fields = dict(path=path, crc32=zlib.crc32(content))
        if label is not None:
            fields['class'] = label
        key = f'{number:0{self.digits}}'
        sample = _member(key + suffix, content)
        sample += _member(key + '.json', json.dumps(fields).encode())
        if self._size and self._size + len(sample) > self.shard_size:
            self._close_shard()
            self._file = open(self._part, 'w+b', buffering=0)
        self._write(sample)

    def close(self) -> None:
        """Finish the last shard."""
        if self._size:
            self._close_shard()
        else:
            self._file.close()
            self._part.unlink()

    def _write(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[self._file.write(view) :]
        self._size += len(content)

    def _close_shard(self) -> None:
        rest = -(self._size + 2 * BLOCK) % tarfile.RECORDSIZE
        self._write(bytes(2 * BLOCK + rest))
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._part, self._path)
        self._add_sum()
        self._shard += 1
        self._size = 0

    def _add_sum(self) -> None:
        self._sums[self._path.name] = sha256(self._path)
        lines = [f'{value}  {name}\n' for name, value in self._sums.items()]
        write_text(self.folder / SUMS, ''.join(lines))

    def _take_over(self, descriptor: int, check: bool) -> int:
        """Note the samples that are there; the place behind the last complete one."""
        end, image = 0, None
        for member in members(descriptor):
            if isinstance(member, Damage):
                break
            if not member.name.endswith('.json'):
                image = member
                continue
            if image is None or (check and not is_whole(descriptor, image, member)):
                break
            self.done.append(int(member.name.partition('.')[0]))
            end, image = _end(member), None
        return end

    @property
    def _path(self) -> Path:
        return self.folder / f'{self._shard:06}.tar'

    @property
    def _part(self) -> Path:
        return self.folder / f'.{self._shard:06}.tar.part'


def read_sums(folder: str | Path) -> dict[str, str]:
    """Return the checksums of the shards of a pack by their names."""
    try:
        lines = Path(folder, SUMS).read_text().splitlines()
    except FileNotFoundError:
        return {}
    return {name: value for value, name in (line.split() for line in lines)}


def _member(name: str, content: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    # Nothing of this machine or hour, so that the same images give the same bytes.
    header = info.tobuf(tarfile.USTAR_FORMAT)
    return header + content + bytes(-len(content) % BLOCK)


def _end(member: Member) -> int:
    return member.offset + (member.size + BLOCK - 1) // BLOCK * BLOCK


def is_whole(descriptor: int, image: Member, fields: Member) -> bool:
    """Whether a shard holds a sample as it was written, to the last byte."""
    text = os.pread(descriptor, fields.size, fields.offset)
    content = os.pread(descriptor, image.size, image.offset)
    try:
        known = json.loads(text)['crc32']
    except (ValueError, KeyError, TypeError):
        return False
    padded = os.fstat(descriptor).st_size >= _end(fields)
    return padded and zlib.crc32(content) == known


def verify_pack(out: str | Path) -> int:
    """Check every shard of a pack, and with it every member, by its checksum.

    Returns the number of images, or raises an error that names the shards and the
    members that are damaged or missing.
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
                if not is_whole(descriptor, image, member):
                    yield image.name
                image = None
        if image is not None:
            yield image.name
    finally:
        os.close(descriptor)


def _of_index(out: Path, state: dict[str, Any]) -> Iterator[str]:
    try:
        number = len(ShardIndex(out / NAME, out))
    except (FileNotFoundError, ValueError, KeyError):
        yield f'{NAME} is gone or damaged; the next training makes it again'
    else:
        if number != state['packed']:
            yield f'{NAME} has {number:,} images instead of {state["packed"]:,}'
