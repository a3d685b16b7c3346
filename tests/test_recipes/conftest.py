"""A folder as users have them: sub-folders, mixed sizes, gray, not all of it images."""

from pathlib import Path

import cv2
import numpy as np
import pytest


def write_photos(folder: Path, number: int = 20, side: int = 32) -> Path:
    """Smooth random images in two sub-folders; the first is gray."""
    rng = np.random.default_rng(0)
    for index in range(number):
        image = rng.integers(0, 255, (5, 5, 3), np.uint8)
        size = (side + 8 * (index % 2), side)
        image = cv2.resize(image, size, interpolation=cv2.INTER_CUBIC)
        place = folder / 'ab'[index % 2] / f'{index:02}.png'
        place.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(place), image if index else image[..., 0])
    (folder / 'notes.txt').write_text('no image')
    return folder


@pytest.fixture(scope='session')
def photos(tmp_path_factory) -> Path:
    return write_photos(tmp_path_factory.mktemp('recipes') / 'photos')
