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

from mmbam.utils.errors import InputError
from mmbam.utils.files import printable

from .bands import RGB, check_bands, check_size, in_file_order, read_bands

#: Number of pixels above which an image is refused before it is decoded. A file of
#: 100 kB can claim a billion, which take 3 GB.
MAX_PIXELS = 200_000_000

_JPEG, _PNG, _PNG_END = b'\xff\xd8\xff', b'\x89PNG\r\n', b'IEND\xaeB`\x82'
#: First and last bytes of complete JPEG and PNG files.
_COMPLETE = ((_JPEG, b'\xff\xd9'), (_PNG, _PNG_END))
#: Number of bands by a PNG's type of color.
_PNG_BANDS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}


def require_regular(path: str | Path) -> None:
    """Refuse a pipe or a device, which could be read forever, and links to them."""
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

    ``bits`` are declared, ``found`` are those of the file's header.
    """
    if values.dtype != np.uint16:
        kind = '32-bit floats' if values.dtype == np.float32 else str(values.dtype)
        raise ValueError(
            f'images of {kind} are not supported with depth=8: use '
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
    try:
        img = open_image(io.BytesIO(content), max_pixels)
    except UnidentifiedImageError:
        read = read_bands(content, RGB, max_pixels)
        if read is None:
            # PIL's own message shows the address of the buffer.
            raise ValueError('this is no image') from None
        return _to_bgr(read[0]), read[1]
    with img:
        if any(content.startswith(a) and content.endswith(b) for a, b in _COMPLETE):
            wide = content.startswith(_PNG) and content[24] == 16
            flags = cv2.IMREAD_COLOR | (cv2.IMREAD_ANYDEPTH if wide else 0)
            decoded = cv2.imdecode(np.frombuffer(content, np.uint8), flags)
            if decoded is not None:
                return decoded, _png_bits(content) if wide else None
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
    try:
        img = open_image(io.BytesIO(content), max_pixels)
    except UnidentifiedImageError:
        raise ValueError('this is no image') from None
    if content.startswith(_PNG) and content[24] == 16:
        return _decode_wide_png(content, channels), _png_bits(content)
    with img:
        if img.mode in ('1', 'P'):
            img = img.convert('RGB' if img.mode == 'P' else 'L')
        wide = img.mode.startswith('I')
        dtype = 'uint16' if wide else 'uint8'
        check_bands(len(img.getbands()), dtype, channels, alpha=False)
        img = ImageOps.exif_transpose(img)
        values = _from_i(img) if wide else np.asarray(img)
        return values.reshape(*values.shape[:2], -1), None


def _decode_wide_png(content: bytes, channels: int | str) -> np.ndarray:
    """Decode a PNG of 16 bits, of which PIL keeps 8."""
    bands = _PNG_BANDS[content[25]]
    check_bands(bands, 'uint16', channels, alpha=False)
    values = None
    if content.endswith(_PNG_END):
        values = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED)
    if values is None:
        raise OSError('the PNG file is truncated')
    values = in_file_order(values.reshape(*values.shape[:2], -1))
    # OpenCV repeats the gray band of an image with alpha.
    return values[..., [0, 3]] if bands == 2 else values


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


def _png_bits(content: bytes) -> int | None:
    """The number of bits that a PNG of 16 bits says to use (its chunk sBIT)."""
    start = content.find(b'sBIT', 33, content.find(b'IDAT'))
    if start < 0:
        return None
    length = int.from_bytes(content[start - 4 : start], 'big')
    found = max(content[start + 4 : start + 4 + min(length, 4)], default=0)
    return found if 8 <= found <= 16 else None


def read_image(path: str | Path, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """Read an image as RGB of uint8, shape (height, width, 3).

    Args:
        path (str | Path): A file.
        max_pixels (int): Number of pixels above which it is refused. Defaults to 200
            million.

    Raises:
        InputError: The file is absent, is no image, or is too large.
    """
    try:
        require_regular(path)
        return decode(Path(path).read_bytes(), max_pixels)[..., ::-1]
    except FileNotFoundError:
        raise InputError(f'There is no image {printable(path)!r}.') from None
    except Exception as error:  # decoders raise errors of many types
        raise InputError(f'{printable(path)!r} cannot be read: {error}.') from error
