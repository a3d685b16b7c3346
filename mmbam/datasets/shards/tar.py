"""Where the members of a tar archive lie."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK = 512
_ZEROS = bytes(BLOCK)
# The first bytes of compressed files, with what decompresses them.
_COMPRESSED = {b'\x1f\x8b': 'gunzip', b'BZh': 'bunzip2', b'\xfd7zXZ': 'unxz'}


class Member(NamedTuple):
    """A file in an archive. Its header is in the 512 bytes before its ``offset``.

    Bytes of its name that are no UTF-8 are surrogates, as in ``os``.
    """

    name: str
    offset: int
    size: int


class Damage(NamedTuple):
    """A part of an archive that is no member: destroyed, or no archive at all."""

    offset: int
    size: int


def members(descriptor: int) -> Iterator[Member | Damage]:
    """Go through the headers of an archive, without reading what they are of.

    Python's ``tarfile`` is slow for millions of members, and ends at the first bad
    header. Here the next good one is looked for. A member that the archive's end cuts
    off is listed.
    """
    place, name, long_size, lost = 0, None, None, None
    while head := os.pread(descriptor, BLOCK, place):
        size = header_size(head)
        if size is None:
            # Blocks of zeros end an archive, and another may follow.
            if lost is None and head != _ZEROS[: len(head)]:
                lost = place
            place += BLOCK
            continue
        if lost is not None:
            yield Damage(lost, place - lost)
            lost = None
        kind, offset = head[156:157], place + BLOCK
        if kind in b'xL':  # what the next header has no room for
            content = os.pread(descriptor, size, offset)
            if kind == b'L':
                name = content
            else:
                fields = _pax_fields(content)
                name = fields.get(b'path', name)
                long_size = fields.get(b'size')
        elif kind != b'K':  # of links
            size = int(long_size) if long_size else size
            if kind in b'0\0' or kind == b'7':
                yield Member(_text(_name(head) if name is None else name), offset, size)
            elif kind not in b'gX':
                size = 0 if kind in b'123456' else size  # links, devices, folders
            name = long_size = None
        place = offset + (size + BLOCK - 1) // BLOCK * BLOCK
    if lost is not None:
        yield Damage(lost, place - lost)


def header_size(head: bytes) -> int | None:
    """Return the size that a member's header says, or None if it is no header."""
    if len(head) < BLOCK or not head[148]:
        return None
    try:
        stored = int(head[148:156].strip(b' \0'), 8)
        # The sum of all bytes, with spaces in place of its own field. The low half of
        # Adler's checksum is the sum of the bytes plus 1, and computed at once.
        total = stored + sum(head[148:156]) - 8 * 32
        if zlib.adler32(head) & 0xFFFF != (total + 1) % 65521:
            return None
        field = head[124:136]
        if field[0] & 0x80:  # sizes of 8 GB and more
            return int.from_bytes(field[1:], 'big')
        return int(field.strip(b' \0') or b'0', 8)
    except ValueError:
        return None


def decompressor(path: str | Path) -> str | None:
    """Return the program that a compressed archive needs, or None for a plain one."""
    with open(path, 'rb') as file:
        start = file.read(6)
    return next((p for s, p in _COMPRESSED.items() if start.startswith(s)), None)


def _name(head: bytes) -> bytes:
    name = head[:100].split(b'\0', 1)[0]
    if head[257:263] == b'ustar\0' and head[345]:
        return head[345:500].split(b'\0', 1)[0] + b'/' + name
    return name


def _text(name: bytes) -> str:
    return os.fsdecode(name.split(b'\0', 1)[0])


def _pax_fields(content: bytes) -> dict[bytes, bytes]:
    """Fields of lines such as b'27 path=name\\n', whose number is their length."""
    fields, place = {}, 0
    while match := re.compile(rb'(\d+) ([^=]+)=').match(content, place):
        length = int(match[1])
        if not length:
            break
        fields[match[2]] = content[match.end() : place + length - 1]
        place += length
    return fields
