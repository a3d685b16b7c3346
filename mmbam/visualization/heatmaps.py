"""Heat maps of networks, laid over the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor


def draw_heat_maps(
    images: np.ndarray, heat_maps: Mapping[str, Tensor], path: str | Path, title: str
) -> None:
    """Draw a row of images, and below it one row of overlays for each network.

    Args:
        images (np.ndarray): RGB images of uint8, shape (n, h, w, 3).
        heat_maps (Mapping[str, Tensor]): Heat maps (n, h', w') by the name of the
            network, as :func:`mmbam.models.heat_map` returns them.
        path (str | Path): PNG file to write.
        title (str): Title of the figure.
    """
    count = len(images)
    figure = Figure(
        figsize=(2 * count + 1, 2 * (1 + len(heat_maps)) + 0.5), layout='constrained'
    )
    grid = figure.subplots(1 + len(heat_maps), count, squeeze=False)
    for axes, image in zip(grid[0], images):
        axes.imshow(image)
    grid[0, 0].set_ylabel('image')
    for row, (name, heat) in zip(grid[1:], heat_maps.items()):
        if len(heat) != count:
            raise ValueError(f'{name} has {len(heat)} heat maps for {count} images.')
        warm = scale_heat_maps(heat, images.shape[1:]).numpy()
        for axes, image, overlay in zip(row, images, warm):
            axes.imshow(image.mean(2), cmap='gray', vmin=0, vmax=255)
            shown = axes.imshow(overlay, cmap='inferno', alpha=0.6, vmin=0, vmax=1)
        row[0].set_ylabel(name)
    for axes in grid.flat:
        axes.set_xticks([])
        axes.set_yticks([])
    if heat_maps:
        figure.colorbar(
            shown, ax=grid[1:], label='Heat, scaled to 0..1 per image', shrink=0.8
        )
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


def scale_heat_maps(heat_maps: Tensor, shape: Sequence[int]) -> Tensor:
    """Upsample heat maps (n, h', w') to an image's shape and scale each to [0, 1]."""
    heat = F.interpolate(
        heat_maps[:, None].float().cpu(),
        (shape[0], shape[1]),
        mode='bilinear',
        align_corners=False,
    )[:, 0]
    low, high = heat.amin((1, 2), keepdim=True), heat.amax((1, 2), keepdim=True)
    return (heat - low) / (high - low).clamp(min=1e-12)
