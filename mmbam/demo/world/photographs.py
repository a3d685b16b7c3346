"""The real photographs that ship inside scikit-image's wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from mmbam.utils.errors import InputError

# Files of the wheel itself, so that nothing is ever downloaded. Drawings, text-book
# patterns and second views of one scene (chessboard, phantom, logo, horse, colour
# wheel, motorcycle_right) are left out. The first ``n`` rows are the classes of a
# world of ``n`` classes; the last two are nearly flat.
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
    """Names of the first ``num_classes`` photographs, in the order of their labels.

    Sorted, because that is how folders of classes are numbered.
    """
    if not 2 <= num_classes <= len(PHOTOGRAPHS):
        raise InputError(
            f'num_classes must be between 2 and {len(PHOTOGRAPHS)} (the photographs '
            f'in scikit-image), got {num_classes!r}.'
        )
    return sorted(list(PHOTOGRAPHS)[:num_classes])


@cache
def load_photograph(name: str) -> np.ndarray:
    """Read a photograph in grey.

    Grey levels are stretched so that every photograph spans the whole range: neither
    a cast of colour nor the exposure gives a class away.

    Args:
        name (str): A key of ``PHOTOGRAPHS``.

    Returns:
        np.ndarray: uint8 of shape (h, w), sides of at most ``MAX_SIDE``; read-only.
    """
    if name not in PHOTOGRAPHS:
        raise ValueError(
            f'No photograph is called {name!r}; there are {", ".join(PHOTOGRAPHS)}.'
        )
    import skimage  # late: importing mmbam.datasets must not need scikit-image

    path = Path(skimage.__file__).parent / 'data' / PHOTOGRAPHS[name]
    if not path.is_file():
        raise InputError(
            f'scikit-image {skimage.__version__} does not ship {path.name}, which the '
            f'class {name!r} is cut from; install scikit-image 0.26.'
        )
    # PIL, because libpng of OpenCV prints warnings about the colour profiles.
    with Image.open(path) as file:
        grey = np.asarray(file.convert('L'))
    shrink = MAX_SIDE / max(grey.shape)
    if shrink < 1:
        height, width = (round(side * shrink) for side in grey.shape)
        grey = cv2.resize(grey, (width, height), interpolation=cv2.INTER_AREA)
    low, high = np.percentile(grey, (1, 99))
    grey = (grey - low) * (255 / (high - low))
    grey = np.clip(np.rint(grey), 0, 255).astype(np.uint8)
    grey.setflags(write=False)
    return grey


def split_cells(height: int, width: int) -> dict[str, list[Cell]]:
    """Divide a photograph into cells and give every fourth one to the test set.

    Cells rather than two halves, because top and bottom of a photograph differ (sky
    and ground). Whatever is cut stays inside one cell, so that no pixel is seen in
    both sets.

    Args:
        height (int): Height of the photograph.
        width (int): Width of the photograph.

    Returns:
        dict[str, list]: Cells of ``'train'`` and of ``'test'``.
    """
    rows, cols = max(1, height // MIN_CELL), max(1, width // MIN_CELL)
    if cols < 4:
        raise ValueError(
            f'A photograph must be at least {4 * MIN_CELL} px wide to hold training '
            f'and test cells, got {height} x {width}.'
        )
    tops = [height * r // rows for r in range(rows + 1)]
    lefts = [width * c // cols for c in range(cols + 1)]
    cells: dict[str, list[Cell]] = {'train': [], 'test': []}
    for r in range(rows):
        for c in range(cols):
            split = 'test' if (r + c) % 4 == 3 else 'train'
            cells[split].append((tops[r], lefts[c], tops[r + 1], lefts[c + 1]))
    return cells
