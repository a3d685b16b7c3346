"""The two formats of ``torch.save``, read without torch's own loader.

``torch.load`` also opens TorchScript and tar archives, and runs what is in them even
with ``weights_only`` (before torch 2.6, CVE-2025-32434). Here a file is a zip archive
of one pickle and plain numbers, or the format before torch 1.6, or it is refused.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from mmbam.utils.errors import InputError

from .unpickling import Refused, RestrictedUnpickler

_CHUNK = 2**20
_ZIP = b'PK\x03\x04'
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_LEGACY = b'\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.'  # the magic number as a pickle


def read_file(
    file: str | Path | BinaryIO,
    unpickler: type[RestrictedUnpickler],
    map_location: Any = 'cpu',
) -> Any:
    """Read a file of ``torch.save``.

    Args:
        file (str | Path | BinaryIO): The file.
        unpickler (type[RestrictedUnpickler]): What rebuilds the objects in it.
        map_location (Any): Device of the tensors. None takes the GPU that they were
            saved from, if there is one; all else, as a function, means the CPU, where
            tensors of the old format always are. Defaults to the CPU.

    Raises:
        Refused: The file names something that the unpickler does not allow.
        InputError: There is no such file, it is damaged, or it has another format.
    """
    if not isinstance(file, (str, Path)):
        return _read(file, 'the stream', unpickler, map_location)
    path = Path(file).expanduser()
    if not path.is_file():
        raise InputError(f'There is no checkpoint file {str(path)!r}.')
    with path.open('rb') as stream:
        return _read(stream, repr(str(path)), unpickler, map_location)


def _read(file: BinaryIO, name: str, unpickler: Any, map_location: Any) -> Any:
    start = file.read(len(_LEGACY))
    file.seek(-len(start), io.SEEK_CUR)

    try:
        if start.startswith(_ZIP):
            return _read_zip(file, unpickler, map_location)
        if start == _LEGACY:
            return _read_legacy(file, unpickler)
    except (Refused, InputError):
        raise
    # Damaged files raise all kinds of errors; the cause stays attached.
    except Exception as error:
        raise InputError(
            f'{name} is not a checkpoint that can be read: it is cut short or damaged '
            f'({type(error).__name__}).'
        ) from error
    raise InputError(
        f'{name} is not a checkpoint: it must be a file of torch.save with tensors.'
    )


def _read_zip(file: BinaryIO, unpickler: Any, map_location: Any) -> Any:
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        root = names[0].split('/')[0]
        if f'{root}/constants.pkl' in names:
            raise Refused('TorchScript')
        order = f'{root}/byteorder'
        if order in names and archive.read(order).decode() != sys.byteorder:
            raise Refused('numbers of the other byte order')
        storages: dict[str, Tensor] = {}

        def read(name: str) -> bytearray:
            info = archive.getinfo(name)
            # torch.save never compresses. A small file could claim any size.
            if info.compress_type != zipfile.ZIP_STORED:
                raise Refused('compressed data')
            content = bytearray(info.file_size)
            view = memoryview(content)
            with archive.open(info) as member:  # compares check sums; torch does not
                for start in range(0, len(content), _CHUNK):
                    view[start : start + _CHUNK] = member.read(_CHUNK)
            return content

        def storage(dtype: torch.dtype, key: str, location: str, length: int) -> Tensor:
            if key not in storages:
                flat = _flat(read(f'{root}/data/{key}'), dtype, length)
                storages[key] = flat.to(_device(map_location, location))
            return storages[key]

        return unpickler(io.BytesIO(read(f'{root}/data.pkl')), storage).load()


def _read_legacy(file: BinaryIO, unpickler: Any) -> Any:
    if unpickler(file).load() != _MAGIC or unpickler(file).load() != _PROTOCOL:
        raise Refused('another version of the format')
    unpickler(file).load()  # about the machine that saved the file
    start = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(start)
    storages: dict[str, Tensor] = {}

    def storage(dtype: torch.dtype, key: str, location: str, length: int) -> Tensor:
        if key not in storages:
            count = length * dtype.itemsize
            if count > size:
                raise EOFError
            storages[key] = _flat(bytearray(count), dtype, length)
        return storages[key]

    content = unpickler(file, storage).load()
    # The numbers follow: the number of elements, and the elements.
    for key in unpickler(file).load():
        flat = storages[key]
        count = int.from_bytes(file.read(8), 'little')
        if count != len(flat):
            raise EOFError
        if count:
            numbers = bytearray(file.read(count * flat.element_size()))
            flat.copy_(_flat(numbers, flat.dtype, count))
    return content


def _flat(content: bytearray, dtype: torch.dtype, length: int) -> Tensor:
    if length == 0:  # torch makes no tensor of an empty buffer
        return torch.empty(0, dtype=dtype)
    flat = torch.frombuffer(content, dtype=dtype)
    if len(flat) != length:
        raise EOFError
    return flat


def _device(map_location: Any, location: str) -> Any:
    if isinstance(map_location, (str, torch.device)):
        return map_location
    there = map_location is None and location.startswith('cuda')
    return location if there and torch.cuda.is_available() else 'cpu'
