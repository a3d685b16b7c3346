"""The real photographs that ship inside scikit-image's wheel."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from mmbam.utils.errors import InputError

# Files of the wheel itself, so that nothing is downloaded. Drawings, patterns and
# second views of one scene (chessboard, phantom, logo, horse, color wheel,
# motorcycle_right) are left out. The first ``n`` rows are the classes of a world of
# ``n`` classes. The last two are nearly flat.
PHOTOGRAPHS = {
    'brick': 'brick.png',
    'grass': 'grass.png',
    'gravel': 'gravel.png',
    'coins': 'coins.png',
    'coffee': 'coffee.png',
    'retina': 'retina.jpg',
    'moon': 'moon.png',
    'page': 'page.png',
    'text': 'text.png',
    'cat': 'chelsea.png',
    'astronaut': 'astronaut.png',
    'camera': 'camera.png',
    'galaxies': 'hubble_deep_field.jpg',
    'tissue': 'ihc.png',
    'rocket': 'rocket.jpg',
    'motorcycle': 'motorcycle_left.png',
    'cell': 'cell.png',
    'clock': 'clock_motion.png',
}

MAX_SIDE = 720
MIN_CELL = 96

Cell = tuple[int, int, int, int]
"""A rectangle of a photograph: (top, left, bottom, right), end exclusive."""


def class_names(num_classes: int) -> list[str]:
    """Return the names of the first photographs, in the order of their labels.

    They are sorted, since folders of classes are numbered in that order.
    """
    if not 2 <= num_classes <= len(PHOTOGRAPHS):
        raise InputError(
            f'num_classes must be between 2 and {len(PHOTOGRAPHS)} (the photographs '
            f'in scikit-image), got {num_classes!r}.'
        )
    return sorted(list(PHOTOGRAPHS)[:num_classes])


@cache
def load_photograph(name: str) -> np.ndarray:
    """Read a photograph in gray, with sides of at most ``MAX_SIDE``; read-only.

    Gray levels are stretched to the whole range, so that neither color nor exposure
    tells the classes apart.
    """
    # Late, because only making a world needs it.
    import skimage

    path = Path(skimage.__file__).parent / 'data' / PHOTOGRAPHS[name]
    if not path.is_file():
        raise InputError(
            f'scikit-image {version("scikit-image")} does not ship {path.name}, which '
            f'the class {name!r} is cut from; install scikit-image 0.26.'
        )
    # PIL, because libpng of OpenCV prints warnings about the color profiles.
    with Image.open(path) as file:
        gray = np.asarray(file.convert('L'))
    shrink = MAX_SIDE / max(gray.shape)
    if shrink < 1:
        height, width = (round(side * shrink) for side in gray.shape)
        gray = cv2.resize(gray, (width, height), interpolation=cv2.INTER_AREA)
    low, high = np.percentile(gray, (1, 99))
    gray = (gray - low) * (255 / (high - low))
    gray = np.clip(np.rint(gray), 0, 255).astype(np.uint8)
    gray.setflags(write=False)
    return gray


def split_cells(height: int, width: int) -> dict[str, list[Cell]]:
    """Divide a photograph into cells, every fourth of which belongs to the test set.

    Cells rather than two halves, because top and bottom of a photograph differ (sky
    and ground). Every cut stays inside one cell, so that ``'train'`` and ``'test'``
    share no pixel.
    """
    rows, cols = max(1, height // MIN_CELL), max(1, width // MIN_CELL)
    tops = [height * r // rows for r in range(rows + 1)]
    lefts = [width * c // cols for c in range(cols + 1)]
    cells: dict[str, list[Cell]] = {'train': [], 'test': []}
    for r, c in np.ndindex(rows, cols):
        split = 'test' if (r + c) % 4 == 3 else 'train'
        cells[split].append((tops[r], lefts[c], tops[r + 1], lefts[c + 1]))
    return cells
