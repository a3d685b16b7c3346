"""What several pictures share: saving a figure, and coloring the objects of an image.

Figures are made without pyplot: no global state, and no display is needed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as a PNG, and make its folder if need be.

    Args:
        figure (Figure): The figure.
        path (str | Path): PNG to write.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def hide_ticks(axes: Axes, title: str = '', size: float = 9) -> None:
    """Remove ticks and frame around an image, and set its title.

    Args:
        axes (Axes): Axes that show the image.
        title (str): Title of the image. Defaults to none.
        size (float): Font size of the title. Defaults to 9.
    """
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=size)
    for spine in axes.spines.values():
        spine.set_visible(False)


def overlay(
    image: np.ndarray,
    labels: np.ndarray,
    colors: np.ndarray,
    strength: float = 0.55,
    ignored: int = 0,
) -> np.ndarray:
    """Color the objects of an image.

    Args:
        image (np.ndarray): RGB image of uint8 (h, w, 3).
        labels (np.ndarray): Label map (h, w).
        colors (np.ndarray): RGB color of each label, from 0 to 255.
        strength (float): Share of the color in a mixed pixel. Defaults to 0.55.
        ignored (int): Label whose pixels stay as they are. Defaults to 0.

    Returns:
        np.ndarray: RGB image of uint8 (h, w, 3).
    """
    shown = labels != ignored
    mixed = image.astype(float)
    tint = np.asarray(colors, float)[labels[shown]]
    mixed[shown] = (1 - strength) * mixed[shown] + strength * tint
    return mixed.astype(np.uint8)
