"""The samples of a shard: members with one name and several endings."""

from __future__ import annotations

import json
import os
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmbam.utils.errors import InputError
from mmbam.utils.files import printable

from ..finding import SUFFIXES
from .tar import Damage, Member, decompressor, members

#: Bytes above which a .json or .cls is not read for a label.
_MOST = 1_000_000
_IMAGES = frozenset(SUFFIXES)


@dataclass
class Listing:
    """The samples with an image of one shard, in their order.

    Args:
        offsets (array): Place of each image.
        sizes (array): Size of each image.
        labels (list): Class of each sample as the shard has it: a number, a name, or
            None.
        names (list[bytes]): Name of each image in the shard.
        without_image (int): Number of samples that have no image.
        damage (list[Damage]): Parts that are no members.
    """

    offsets: array = field(default_factory=lambda: array('Q'))
    sizes: array = field(default_factory=lambda: array('Q'))
    labels: list[int | str | None] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)
    without_image: int = 0
    damage: list[Damage] = field(default_factory=list)


def list_shard(path: str | Path) -> Listing:
    """List the samples of a shard, in WebDataset's form.

    Neighbors whose names differ only behind the first dot of the last part make up a
    sample. The first with an ending of :data:`SUFFIXES` is its image. Its class is that
    of a ``.cls``, or ``class`` or ``cls`` in a ``.json``.
    """
    program = decompressor(path)
    if program is not None:
        raise InputError(
            f'{printable(path)!r} is compressed, so that no member can be read alone: '
            f'run {program} on it first.'
        )
    listing = Listing()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        key, image, label = None, None, None
        for member in members(descriptor):
            if isinstance(member, Damage):
                listing.damage.append(member)
                continue
            folder, slash, base = member.name.rpartition('/')
            stem, dot, ending = base.partition('.')
            if not stem or not dot:  # hidden, such as macOS's ._000.jpg, or no ending
                continue
            this = folder + slash + stem
            if this != key:
                _append(listing, key, image, label)
                key, image, label = this, None, None
            ending = ending.rpartition('.')[2].lower()
            if '.' + ending in _IMAGES:
                image = image or member
            elif ending in ('cls', 'json') and member.size <= _MOST:
                found = _label(os.pread(descriptor, member.size, member.offset), ending)
                if label is None or ending == 'cls':
                    label = found
        _append(listing, key, image, label)
    finally:
        os.close(descriptor)
    return listing


def _append(listing: Listing, key: str | None, image: Member | None, label) -> None:
    if image is not None:
        listing.offsets.append(image.offset)
        listing.sizes.append(image.size)
        listing.labels.append(label)
        listing.names.append(os.fsencode(image.name))
    elif key is not None:
        listing.without_image += 1


def _label(content: bytes, ending: str) -> int | str | None:
    text: Any = content.decode('utf-8', 'replace').strip()
    if ending == 'json':
        try:
            fields = json.loads(text)
        except ValueError:
            return None
        if not isinstance(fields, dict):
            return None
        text = fields.get('class', fields.get('cls'))
    if isinstance(text, str):
        return int(text) if text.isdecimal() and text.isascii() else text or None
    return text if isinstance(text, int) and text >= 0 else None
