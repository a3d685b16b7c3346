"""What several pictures share: saving a figure, and coloring the objects of an image.

Figures are made without pyplot: no global state, and no display is needed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mmbam.utils.errors import input_errors
from mmbam.utils.files import written

_STRENGTH = 0.55  # share of the color in a mixed pixel


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as a PNG, and make its folder if need be."""
    with written(path) as part, input_errors((ValueError,), of=str(path)):
        figure.savefig(part, dpi=110)


def overlay(
    image: np.ndarray, labels: np.ndarray, colors: np.ndarray, ignored: int = 0
) -> np.ndarray:
    """Color the objects of an image.

    Args:
        image (np.ndarray): RGB image of uint8 (h, w, 3).
        labels (np.ndarray): Label map (h, w).
        colors (np.ndarray): RGB color of each label, from 0 to 255.
        ignored (int): Label whose pixels stay as they are. Defaults to 0.

    Returns:
        np.ndarray: RGB image of uint8 (h, w, 3).
    """
    shown = labels != ignored
    mixed = image.astype(float)
    tint = np.asarray(colors, float)[labels[shown]]
    mixed[shown] = (1 - _STRENGTH) * mixed[shown] + _STRENGTH * tint
    return mixed.astype(np.uint8)
