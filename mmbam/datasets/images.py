"""Image files: find them, read them."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
from mmengine.logging import print_log

from mmbam.utils.errors import InputError

from .decoding import MAX_PIXELS, decode, require_regular

SUFFIXES = ('.jpg', '.jpeg', '.png', '.bmp', '.webp', '.tif', '.tiff', '.gif', '.ppm',
            '.npy', '.npz', '.dcm')  # fmt: skip


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
    named = [file for file in path.rglob('*') if file.suffix.lower() in SUFFIXES]
    found = sorted(file for file in named if file.is_file())
    others = sorted(str(f) for f in named if not f.is_file() and not f.is_dir())
    if others:
        print_log(
            f'Passed over {len(others)} that are no regular files: {", ".join(others)}',
            'current',
            logging.WARNING,
        )
    if not found:
        raise InputError(
            f'The folder {str(path)!r} holds no images ({", ".join(SUFFIXES)}).'
        )
    return found


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
        raise InputError(f'There is no image {str(path)!r}.') from None
    except Exception as error:  # decoders raise errors of many types
        raise InputError(f'{str(path)!r} cannot be read: {error}.') from error
