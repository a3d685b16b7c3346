"""What several pictures share: saving a figure, and coloring the objects of an image.

Figures are made without pyplot: no global state, and no display is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mmbam.utils.errors import InputError, input_errors
from mmbam.utils.files import written

_STRENGTH = 0.55  # share of the color in a mixed pixel


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as a PNG, and make its folder if need be."""
    with written(path) as part, input_errors((ValueError,), of=str(path)):
        figure.savefig(part, dpi=110)


def to_picture(image: np.ndarray, bands: Sequence[int] | None = None) -> np.ndarray:
    """Show three bands of an image (height, width, bands) as RGB of uint8.

    Without ``bands``, these are the first three, of which an image with fewer repeats
    the last. Values of other types are scaled, each band from its 2nd to its 98th
    percentile.
    """
    count = image.shape[2]
    chosen = tuple(min(i, count - 1) for i in range(3)) if bands is None else bands
    if len(chosen) != 3 or not all(0 <= band < count for band in chosen):
        raise InputError(
            f'bands must be three numbers from 0 to {count - 1}, the bands to show as '
            f'red, green and blue, got {tuple(chosen)}.'
        )
    shown = image[..., list(chosen)]
    if shown.dtype == np.uint8:
        return shown
    low, high = np.percentile(shown, (2, 98), axis=(0, 1))
    scaled = (shown - low) / np.maximum(high - low, 1e-12)
    return np.rint(255 * scaled.clip(0, 1)).astype(np.uint8)


def overlay(
    image: np.ndarray, labels: np.ndarray, colors: np.ndarray, ignored: int = 0
) -> np.ndarray:
    """Color the objects of an RGB image by a label map (h, w), except ``ignored``.

    Image, colors and result are RGB from 0 to 255; the result is of uint8.
    """
    shown = labels != ignored
    mixed = image.astype(float)
    tint = np.asarray(colors, float)[labels[shown]]
    mixed[shown] = (1 - _STRENGTH) * mixed[shown] + _STRENGTH * tint
    return mixed.astype(np.uint8)
