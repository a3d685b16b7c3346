"""Image files: find them, read them, decode them."""

from __future__ import annotations

import io
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from mmbam.utils.errors import InputError

SUFFIXES = ('.jpg', '.jpeg', '.png', '.bmp', '.webp', '.tif', '.tiff', '.gif', '.ppm')

#: First and last bytes of complete JPEG and PNG files.
_COMPLETE = ((b'\xff\xd8\xff', b'\xff\xd9'), (b'\x89PNG\r\n', b'IEND\xaeB`\x82'))


def find_images(path: str | Path) -> list[Path]:
    """Find the image at a path, or all images in a folder and its sub-folders.

    Args:
        path (str | Path): An image with any name, or a folder, in which files with one
            of :data:`SUFFIXES` count as images.

    Returns:
        list[Path]: Sorted paths, at least one.
    """
    path = Path(path)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f'There is no image or folder {str(path)!r}.')
    found = sorted(
        file
        for file in path.rglob('*')
        if file.suffix.lower() in SUFFIXES and file.is_file()
    )
    if not found:
        raise InputError(
            f'The folder {str(path)!r} holds no images ({", ".join(SUFFIXES)}).'
        )
    return found


def read_image(path: str | Path) -> np.ndarray:
    """Read an image as RGB of uint8, shape (height, width, 3)."""
    try:
        return decode(Path(path).read_bytes())[..., ::-1]
    except FileNotFoundError:
        raise InputError(f'There is no image {str(path)!r}.') from None
    except Exception as error:  # decoders raise errors of many types
        raise InputError(f'{str(path)!r} cannot be read: {error}.') from error


def decode(content: bytes) -> np.ndarray:
    """Decode an image to BGR of uint8.

    Gray, palette and CMYK images become BGR, 16-bit images keep their upper 8 bits, the
    alpha channel is dropped, the EXIF orientation is applied, and an animation gives
    its first frame.

    OpenCV decodes JPEG and PNG files that are complete. PIL decodes the rest: it is
    slower, but knows more formats and raises an error for a truncated file, where some
    versions of OpenCV fill the missing part with gray.

    Args:
        content (bytes): Content of the file.

    Returns:
        np.ndarray: Image of uint8, shape (height, width, 3).

    Raises:
        OSError: If the file is truncated.
        ValueError: If it is not an image, or has 32 bits per channel.
        Exception: What else PIL's decoders raise for broken files (``SyntaxError`` and
            ``struct.error`` among others).
    """
    for start, end in _COMPLETE:
        if content.startswith(start) and content.endswith(end):
            img = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
            if img is not None:
                return img
    try:
        img = Image.open(io.BytesIO(content))
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
