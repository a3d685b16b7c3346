"""Images that a user names, by a file or by a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mmbam.utils.errors import InputError

from .transforms.loading import decode

SUFFIXES = ('.jpg', '.jpeg', '.png', '.bmp', '.webp', '.tif', '.tiff', '.gif', '.ppm')


def find_images(path: str | Path) -> list[Path]:
    """The image at a path, or all images in a folder and in the folders inside it.

    Args:
        path (str | Path): An image of any name, or a folder, of which files with the
            usual names of images count.

    Returns:
        list[Path]: Sorted, at least one.
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
    except Exception as error:  # decoders raise what they like
        raise InputError(f'{str(path)!r} cannot be read: {error}.') from error
