"""Read one image file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mmbam.utils.errors import InputError
from mmbam.utils.files import printable

from .decoding import MAX_PIXELS, decode, require_regular


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
