"""Heat maps of networks, laid over the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import Tensor

from .figures import save_figure


def draw_heat_maps(
    images: Sequence[np.ndarray],
    heat_maps: Mapping[str, Sequence[Tensor]],
    path: str | Path,
    title: str,
) -> None:
    """Draw a row of images, and below it one row of overlays for each network.

    ``heat_maps`` has the map (h', w') of each image by the name of the network.
    """
    rows, columns = 1 + len(heat_maps), len(images)
    figure = Figure(
        figsize=(1.25 * columns + 0.8, 1.3 * rows + 0.5), layout='constrained'
    )
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, image in zip(grid[0], images):
        axes.imshow(image)
    for row, maps in zip(grid[1:], heat_maps.values()):
        for axes, image, heat in zip(row, images, maps):
            shown = overlay_heat(axes, image, heat)
    for axes, name in zip(grid[:, 0], ('image', *heat_maps)):
        axes.set_ylabel(name)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
    if heat_maps:
        figure.colorbar(
            shown, ax=grid[1:], label='Heat, scaled to 0..1 per image', shrink=0.8
        )
    figure.suptitle(title)
    save_figure(figure, path)


def overlay_heat(axes: Axes, image: np.ndarray, heat: Tensor) -> AxesImage:
    """Show a gray image under its heat map (h', w'), scaled to the range [0, 1]."""
    heat = F.interpolate(
        heat[None, None].float().cpu(), image.shape[:2], mode='bilinear'
    )[0, 0]
    low, high = heat.aminmax()
    warm = (heat - low) / (high - low).clamp(min=1e-12)
    axes.imshow(image.mean(2), cmap='gray', vmin=0, vmax=255)
    return axes.imshow(warm.numpy(), cmap='inferno', alpha=0.6, vmin=0, vmax=1)
