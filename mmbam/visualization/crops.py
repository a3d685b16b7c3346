"""Random and contrastive crops of images, beside heat maps and boxes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mmbam.datasets.transforms.resize import resize_bicubic
from mmbam.datasets.transforms.window import Box, sample_window
from mmbam.evaluation.empty_crops import ALPHA, ASPECT
from mmbam.utils.random import preserved_randomness

from .figures import save_figure
from .heatmaps import overlay_heat

GLOBAL, LOCAL = (0.25, 1.0), (0.05, 0.25)  # the paper's shares of the image's area
AREAS = (GLOBAL, GLOBAL, LOCAL, LOCAL, LOCAL)  # of the crops in a row
SIDE = 112


def draw_crops(
    images: Sequence[np.ndarray], heat_maps: Tensor, boxes: Tensor, path: str | Path
) -> None:
    """Draw a row for each image: its heat map and box, random and contrastive crops.

    Both kinds of crops have the same sizes and aspect ratios; only their positions
    differ. Images are RGB of uint8, heat maps (n, h, w), and boxes (n, 4) as (h0, w0,
    h1, w1) in [0, 1].
    """
    count = len(AREAS)
    # A narrow empty column in front of each kind of crops.
    widths = [1.2, 1.2, 0.15, *[1] * count, 0.15, *[1] * count]
    figure = Figure(
        figsize=(1.1 * sum(widths), 1.25 * len(images) + 0.7), layout='constrained'
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0)
    grid = figure.subplots(len(images), len(widths), squeeze=False, width_ratios=widths)
    for axes in grid.flat:
        axes.set_axis_off()
    whole = whole_images(boxes).tolist()
    for number, (row, image, heat) in enumerate(zip(grid, images, heat_maps)):
        box = tuple(boxes[number].tolist())
        row[0].imshow(image)
        if whole[number]:
            style = dict(facecolor='black', alpha=0.7, edgecolor='none', pad=2)
            row[0].text(
                0.5, 0.03, 'box: whole image', transform=row[0].transAxes, fontsize=8,
                color='lime', ha='center', bbox=style,
            )  # fmt: skip
        overlay_heat(row[1], image, heat)
        for axes in row[:2]:
            _draw_box(axes, image.shape, box)
        crops = _cut(image, None, number) + _cut(image, box, number)
        for axes, crop in zip([*row[3 : 3 + count], *row[4 + count :]], crops):
            axes.imshow(crop)
    titles = {
        0: 'image, box',
        1: 'heat map',
        3 + count // 2: 'random crops',
        4 + count + count // 2: 'contrastive crops',
    }
    for column, title in titles.items():
        grid[0, column].set_title(title, fontsize=11)
    if any(whole):
        figure.suptitle(of_whole_images(boxes), fontsize=11)
    save_figure(figure, path)


def whole_images(boxes: Tensor) -> Tensor:
    """Return whether each box (n, 4) is the whole image."""
    return (boxes[:, :2] <= 0.01).all(dim=1) & (boxes[:, 2:] >= 0.99).all(dim=1)


def of_whole_images(boxes: Tensor) -> str:
    """Return a sentence that says how many boxes are the whole image."""
    number = int(whole_images(boxes).sum())
    if not number:
        return f'None of the {len(boxes)} boxes is the whole image.'
    return (
        f'{number} of {len(boxes)} boxes {"is" if number == 1 else "are"} the whole '
        'image: there, contrastive crops are as far from the object as random ones.'
    )


def _draw_box(axes: Axes, shape: tuple[int, ...], box: Box) -> None:
    height, width = shape[:2]
    h0, w0, h1, w1 = box
    corner = (w0 * width - 0.5, h0 * height - 0.5)
    size = ((w1 - w0) * width, (h1 - h0) * height)
    axes.add_patch(
        Rectangle(corner, *size, fill=False, color='lime', linewidth=2, clip_on=False)
    )


def _cut(image: np.ndarray, box: Box | None, seed: int) -> list[np.ndarray]:
    crops = []
    height, width = image.shape[:2]
    with preserved_randomness():
        for number, area in enumerate(AREAS):
            # Seeded one by one, so that both kinds have the same sizes and ratios.
            np.random.seed((seed, number))
            top, left, h, w = sample_window(height, width, area, ASPECT, box, ALPHA)
            window = np.ascontiguousarray(image[top : top + h, left : left + w])
            crops.append(resize_bicubic(window, SIDE, SIDE))
    return crops
