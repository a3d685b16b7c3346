"""Decode images of every format: to BGR of 8 bits, or all bands and bits."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from .bands import RGB, check_bands, check_size, in_file_order, read_bands

#: Number of pixels above which an image is refused before it is decoded. A file of
#: 100 kB can claim a billion, which take 3 GB.
MAX_PIXELS = 200_000_000

_JPEG, _PNG = b'\xff\xd8\xff', b'\x89PNG\r\n'
#: First and last bytes of complete JPEG and PNG files.
_COMPLETE = ((_JPEG, b'\xff\xd9'), (_PNG, b'IEND\xaeB`\x82'))
#: Number of bands by a PNG's type of color.
_PNG_BANDS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
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
    check_size(*img.size, max_pixels)
    return img


def decode(
    content: bytes,
    max_pixels: int = MAX_PIXELS,
    channels: int | str = RGB,
    depth: int | str = 8,
    bits: int | None = None,
    say: Callable[[str], None] | None = None,
) -> np.ndarray:
    """Decode an image.

    By default it becomes BGR of uint8: gray, palette and CMYK images become BGR, the
    alpha channel is dropped, the EXIF orientation is applied, and an animation or a
    TIFF of several pages gives its first one.

    OpenCV decodes JPEG and PNG files that are complete. PIL decodes the rest: it is
    slower, but knows more formats and raises an error for a truncated file, where some
    versions of OpenCV fill the missing part with gray. What it does not know is read by
    :func:`mmbam.datasets.bands.read_bands`.

    Args:
        content (bytes): Content of the file.
        max_pixels (int): Number of pixels above which the image is refused, by its
            header. Defaults to 200 million.
        channels (int | str): Number of bands that the image must have, which keep the
            file's order, or ``'rgb'`` for BGR of any image in gray or color. Defaults
            to ``'rgb'``.
        depth (int | str): ``'full'`` keeps the file's type, uint8, uint16, int16 or
            float32. With 8, the upper 8 bits of uint16 remain. Defaults to 8.
        bits (int, optional): Number of bits that values of uint16 use, which decides
            what their upper 8 bits are. Defaults to None: what the file's header says,
            or 10, 12 or 16 by the highest value in the image.
        say (Callable, optional): Function that is told of images of less than 16 bits
            that are cut to 8. Defaults to None.

    Returns:
        np.ndarray: Image of shape (height, width, channels), or 3 for ``'rgb'``.

    Raises:
        OSError: If the file is truncated.
        WrongBands: If the image has another number of bands.
        ValueError: If it is not an image, too large, or of another type of values.
        Exception: What else decoders raise for broken files (``SyntaxError`` and
            ``struct.error`` among others).
    """
    if channels == RGB:
        img, found = _decode_bgr(content, max_pixels)
    else:
        img, found = _decode_bands(content, channels, max_pixels)
    if depth == 8 and img.dtype != np.uint8:
        img = to_8_bits(img, bits, found, say)
    return img


def to_8_bits(
    values: np.ndarray,
    bits: int | None = None,
    found: int | None = None,
    say: Callable[[str], None] | None = None,
) -> np.ndarray:
    """Keep the upper 8 bits of values of uint16, see :func:`decode`.

    Args:
        values (np.ndarray): Values of uint16, of any shape.
        bits (int, optional): Number of bits in use, as declared. Defaults to None.
        found (int, optional): Number of bits in use by the file's header. Defaults to
            None.
        say (Callable, optional): See :func:`decode`. Defaults to None.
    """
    if values.dtype != np.uint16:
        raise ValueError(
            f'images of {_name(values.dtype)} are not supported with depth=8: use '
            "depth='full' of mmbam.LoadImage"
        )
    source = 'bits' if bits else "the file's header" if found else 'the highest value'
    used = bits or found
    if used is None:
        used = next(n for n in (10, 12, 16) if int(values.max()) < 2**n)
    if used < 16 and say is not None:
        say(
            f'Images of uint16 use {used} bits (by {source}), of which the upper 8 are '
            f'kept. Declare bits={used} of mmbam.LoadImage for all, or keep every bit '
            "with depth='full'."
        )
    return np.minimum(values >> max(used - 8, 0), 255).astype(np.uint8)


def _decode_bgr(content: bytes, max_pixels: int) -> tuple[np.ndarray, int | None]:
    """Decode to BGR of any type; also the number of bits by the header."""
    for start, end in _COMPLETE:
        if content.startswith(start) and content.endswith(end):
            size = _png_size(content) if start == _PNG else _jpeg_size(content)
            if size is None:
                break
            check_size(*size, max_pixels)
            wide = start == _PNG and content[24] == 16
            flags = cv2.IMREAD_COLOR | (cv2.IMREAD_ANYDEPTH if wide else 0)
            img = cv2.imdecode(np.frombuffer(content, np.uint8), flags)
            if img is not None:
                return img, _png_bits(content) if wide else None
    try:
        img = open_image(io.BytesIO(content), max_pixels)
    except UnidentifiedImageError:
        read = read_bands(content, RGB, max_pixels)
        if read is None:
            # PIL's own message shows the address of the buffer.
            raise ValueError('this is no image') from None
        return _to_bgr(read[0]), read[1]
    with img:
        if img.format == 'TIFF' and max(img.tag_v2.get(258, (1,))) > 8:
            read = read_bands(content, RGB, max_pixels)
            if read is not None:
                return _to_bgr(read[0]), read[1]
        img = ImageOps.exif_transpose(img)
        if img.mode.startswith('I'):
            return _to_bgr(_from_i(img)), None
        return cv2.cvtColor(np.asarray(img.convert('RGB')), cv2.COLOR_RGB2BGR), None


def _decode_bands(
    content: bytes, channels: int | str, max_pixels: int
) -> tuple[np.ndarray, int | None]:
    """Decode all bands in the file's order; also the number of bits by the header."""
    read = read_bands(content, channels, max_pixels)
    if read is not None:
        return read
    if content.startswith(_PNG) and content[24:25] == b'\x10':
        bands = _PNG_BANDS[content[25]]
        check_size(*(_png_size(content) or (0, 0)), max_pixels)
        check_bands(bands, 'uint16', channels, alpha=False)
        img = None
        if content.endswith(_COMPLETE[1][1]):
            raw = np.frombuffer(content, np.uint8)
            img = cv2.imdecode(raw, cv2.IMREAD_UNCHANGED)
        if img is None:
            raise OSError('the PNG file is truncated')
        img = in_file_order(img.reshape(*img.shape[:2], -1))
        # OpenCV repeats the gray band of an image with alpha.
        return (img[..., [0, 3]] if bands == 2 else img), _png_bits(content)
    try:
        img = open_image(io.BytesIO(content), max_pixels)
    except UnidentifiedImageError:
        raise ValueError('this is no image') from None
    with img:
        if img.mode in ('1', 'P'):
            img = img.convert('RGB' if img.mode == 'P' else 'L')
        wide = img.mode.startswith('I')
        dtype = 'uint16' if wide else 'uint8'
        check_bands(len(img.getbands()), dtype, channels, alpha=False)
        img = ImageOps.exif_transpose(img)
        values = _from_i(img) if wide else np.asarray(img)
        return values.reshape(*values.shape[:2], -1), None


def _to_bgr(values: np.ndarray) -> np.ndarray:
    if values.shape[2] == 1:
        return values.repeat(3, axis=2)
    return np.ascontiguousarray(values[..., ::-1])


def _from_i(img: Any) -> np.ndarray:
    """Values of one of PIL's modes of integers."""
    wide = np.asarray(img)
    if wide.min() < 0 or wide.max() > 65535:
        raise ValueError('images of 32-bit integers are not supported')
    return wide.astype(np.uint16)[..., None]


def _name(dtype: np.dtype) -> str:
    return '32-bit floats' if dtype == np.float32 else str(dtype)


def _png_bits(content: bytes) -> int | None:
    """The number of bits that a PNG of 16 bits says to use (its chunk sBIT)."""
    start = content.find(b'sBIT', 33, content.find(b'IDAT'))
    if start < 0:
        return None
    length = int.from_bytes(content[start - 4 : start], 'big')
    found = max(content[start + 4 : start + 4 + min(length, 4)], default=0)
    return found if 8 <= found <= 16 else None


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
