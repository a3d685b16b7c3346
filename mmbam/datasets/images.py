"""Image files: read them, decode them."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from mmbam.utils.errors import InputError
from mmbam.utils.files import printable

#: Number of pixels above which an image is refused before it is decoded. A file of
#: 100 kB can claim a billion, which take 3 GB.
MAX_PIXELS = 200_000_000

_JPEG, _PNG = b'\xff\xd8\xff', b'\x89PNG\r\n'
#: First and last bytes of complete JPEG and PNG files.
_COMPLETE = ((_JPEG, b'\xff\xd9'), (_PNG, b'IEND\xaeB`\x82'))
#: Markers of a JPEG's segments that hold its height and width.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def require_regular(path: str | Path) -> None:
    """Refuse a pipe or a device, which could be read forever, and links to them.

    Args:
        path (str | Path): A local path.

    Raises:
        OSError: It is no regular file, or there is none.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError('this is not a regular file')


def read_image(path: str | Path, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """Read an image as RGB of uint8, shape (height, width, 3).

    Args:
        path (str | Path): A file.
        max_pixels (int): Number of pixels above which it is refused. Defaults to 200
            million.
    """
    try:
        require_regular(path)
        return decode(Path(path).read_bytes(), max_pixels)[..., ::-1]
    except FileNotFoundError:
        raise InputError(f'There is no image {printable(path)!r}.') from None
    except Exception as error:  # decoders raise errors of many types
        raise InputError(f'{printable(path)!r} cannot be read: {error}.') from error


def open_image(file: str | Path | io.BytesIO, max_pixels: int = MAX_PIXELS) -> Any:
    """Open an image with PIL, which reads the header alone.

    Args:
        file (str | Path | io.BytesIO): A file, or its content.
        max_pixels (int): Number of pixels above which it is refused. Defaults to 200
            million.

    Returns:
        PIL.Image.Image: The image, not decoded yet.
    """
    if not isinstance(file, io.BytesIO):
        require_regular(file)
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None  # PIL's own is lower
    try:
        img = Image.open(file)
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    _check_size(*img.size, max_pixels)
    return img


def decode(content: bytes, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """Decode an image to BGR of uint8.

    Gray, palette and CMYK images become BGR, 16-bit images keep their upper 8 bits, the
    alpha channel is dropped, the EXIF orientation is applied, and an animation gives
    its first frame.

    OpenCV decodes JPEG and PNG files that are complete. PIL decodes the rest: it is
    slower, but knows more formats and raises an error for a truncated file, where some
    versions of OpenCV fill the missing part with gray.

    Args:
        content (bytes): Content of the file.
        max_pixels (int): Number of pixels above which the image is refused, by its
            header. Defaults to 200 million.

    Returns:
        np.ndarray: Image of uint8, shape (height, width, 3).

    Raises:
        OSError: If the file is truncated.
        ValueError: If it is not an image, too large, or has 32 bits per channel.
        Exception: What else PIL's decoders raise for broken files (``SyntaxError`` and
            ``struct.error`` among others).
    """
    for start, end in _COMPLETE:
        if content.startswith(start) and content.endswith(end):
            size = _png_size(content) if start == _PNG else _jpeg_size(content)
            if size is None:
                break
            _check_size(*size, max_pixels)
            img = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
            if img is not None:
                return img
    try:
        img = open_image(io.BytesIO(content), max_pixels)
    except UnidentifiedImageError:
        # PIL's own message shows the address of the buffer.
        raise ValueError('this is no image') from None
    with img:
        img = ImageOps.exif_transpose(img)
        if img.mode == 'F':
            raise ValueError('images of 32-bit floats are not supported')
        if img.mode.startswith('I'):
            wide = np.asarray(img)
            if wide.min() < 0 or wide.max() > 65535:
                raise ValueError('images of 32-bit integers are not supported')
            img = Image.fromarray((wide >> 8).astype(np.uint8))
        return cv2.cvtColor(np.asarray(img.convert('RGB')), cv2.COLOR_RGB2BGR)


def _png_size(content: bytes) -> tuple[int, int] | None:
    if content[12:16] != b'IHDR':
        return None
    return int.from_bytes(content[16:20], 'big'), int.from_bytes(content[20:24], 'big')


def _jpeg_size(content: bytes) -> tuple[int, int] | None:
    """Width and height of the first frame, found as libjpeg finds it."""
    place = 2
    while True:
        place = content.find(b'\xff', place) + 1
        if not 0 < place < len(content) - 7:
            return None
        marker = content[place]
        if marker in _FRAMES:
            height, width = (
                content[place + 4 : place + 6],
                content[place + 6 : place + 8],
            )
            return int.from_bytes(width, 'big'), int.from_bytes(height, 'big')
        if marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD8:  # without a length
            place += marker != 0xFF
        else:
            place += 1 + int.from_bytes(content[place + 1 : place + 3], 'big')


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise ValueError(
            f'{width} x {height} pixels are more than the {max_pixels:,} that '
            'max_pixels allows'
        )
