"""[cls] attention of a network: its mean and every head (paper, App. E)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from mmbam.datasets.transforms.resize import resize_bicubic
from mmbam.models import attention_maps, heat_map
from mmbam.models.backbones.anatomy import NoAttentionError, patch_size
from mmbam.utils.errors import InputError
from mmbam.utils.model import frozen

from .figures import save_figure, to_picture
from .heatmaps import overlay_heat


@dataclass
class Gaze:
    """Where a network looks in one image.

    Args:
        image (np.ndarray): Resized image that the network saw, RGB of uint8 (height,
            width, 3).
        mean (Tensor): Mean over the heads (h, w), or the heat map of a network without
            [cls] attention.
        heads (Tensor | None): Attention from [cls] to the patches (heads, h, w), None
            for a network without it.
        name (str): Name of the image. Defaults to ''.
    """

    image: np.ndarray
    mean: Tensor
    heads: Tensor | None
    name: str = ''


def look(
    backbone: nn.Module,
    preprocessor: nn.Module,
    image: np.ndarray,
    size: int = 512,
    name: str = '',
    bands: Sequence[int] | None = None,
) -> Gaze:
    """Compute where a network looks in an image.

    Args:
        backbone (nn.Module): Network to look through. A ViT with a [cls] token shows
            the attention of its last block, any other network its heat map.
        preprocessor (nn.Module): Module that normalises BGR images, such as the
            ``data_preprocessor`` of a config.
        image (np.ndarray): RGB image of uint8 (height, width, 3), of any size; with
            ``bands`` an image as :class:`mmbam.LoadImage` loads it.
        size (int): Shorter side of the resized image in pixels. The aspect ratio is
            kept, and both sides become multiples of the patch size. Defaults to 512,
            as in the paper.
        name (str): Name of the image. Defaults to ''.
        bands (Sequence[int], optional): Numbers of the bands to show as red, green and
            blue. Defaults to None: the image is RGB.
    """
    seen = _resize(image, size, patch_size(backbone))
    # Preprocessors of configs expect BGR.
    inputs = seen[..., ::-1].copy() if bands is None else seen
    batch = torch.from_numpy(inputs).permute(2, 0, 1)[None]
    with frozen(backbone):
        inputs = preprocessor(dict(inputs=batch, data_samples=None))['inputs']
        try:
            heads = attention_maps(backbone, inputs)[0].cpu()
            mean = heads.mean(dim=0)
        except NoAttentionError:
            heads, mean = None, heat_map(backbone, inputs)[0].float().cpu()
    return Gaze(seen if bands is None else to_picture(seen, bands), mean, heads, name)


def draw_attention(
    gazes: Sequence[Gaze],
    path: str | Path,
    title: str = 'Attention from [cls] to the patches in the last block',
) -> None:
    """Draw each image, the mean of the heads over it and alone, and every head.

    ``gazes`` are results of :func:`look` for one network. A map is shown in its own
    resolution, from 0 (a heat map: from its smallest value) to its largest value; over
    the image it is smoothed.
    """
    if not gazes:
        raise InputError('There are no images to draw the attention of.')
    heads = 0 if gazes[0].heads is None else len(gazes[0].heads)
    # Up to six heads fill one row; more fill two rows beside a larger image.
    rows = 1 if heads <= 6 else 2
    columns = 3 * rows + math.ceil(heads / rows)
    cell = 1.6 if rows == 1 else 1.2
    # Rows are as high as their images, up to a limit, plus room for the text.
    ratios = [min(g.image.shape[0] / g.image.shape[1], 1.5) for g in gazes]
    heights = [cell * ratio + 0.25 for ratio in ratios for _ in range(rows)]
    figure = Figure(
        figsize=(max(cell * columns, 5) + 1, sum(heights) + 0.6), layout='constrained'
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.02)
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    panels = []
    for number, gaze in enumerate(gazes):
        block = slice(rows * number, rows * (number + 1))
        large = [
            figure.add_subplot(grid[block, rows * k : rows * (k + 1)]) for k in range(3)
        ]
        large[0].imshow(gaze.image)
        large[0].set_xlabel(_label(gaze, int(14 * cell * rows)), fontsize=8)
        overlay_heat(large[1], gaze.image, gaze.mean)
        panels.append((large[2], _show_map(large[2], gaze.mean, gaze.image, not heads)))
        mean = f'mean of {heads} heads' if heads else 'heat map'
        images = [*zip(large, ('image', 'over the image', mean))]
        for k, head in enumerate(() if gaze.heads is None else gaze.heads):
            row, column = divmod(k, columns - 3 * rows)
            axes = figure.add_subplot(grid[block.start + row, 3 * rows + column])
            panels.append((axes, _show_map(axes, head, gaze.image)))
            images.append((axes, f'head {k + 1}'))
        for axes, name in images:
            axes.set(xticks=[], yticks=[])
            axes.set_title(name if number == 0 else '', fontsize=9)
            axes.spines[:].set_visible(False)
    bar = figure.colorbar(
        panels[0][1], ax=[axes for axes, _ in panels], shrink=0.8, ticks=[0, 1]
    )
    bar.ax.set_yticklabels(['0' if heads else 'min', 'max'])
    bar.set_label('Attention of each map' if heads else 'Heat of each map')
    figure.suptitle(title)
    save_figure(figure, path)


def _resize(image: np.ndarray, size: int, patch: int) -> np.ndarray:
    if size < patch:
        raise InputError(
            f'size must be at least one patch, {patch} pixels, but got {size}.'
        )
    scale = size / min(image.shape[:2])
    height, width = (
        max(1, round(scale * side / patch)) * patch for side in image.shape[:2]
    )
    return resize_bicubic(image, height, width)


def _label(gaze: Gaze, length: int) -> str:
    height, width = gaze.image.shape[:2]
    name = gaze.name
    if len(name) > length:  # The end distinguishes files of a folder.
        name = f'…{name[1 - length :]}'
    return f'{name}\n{width} x {height} px'.strip()


def _show_map(axes, values: Tensor, image: np.ndarray, from_lowest: bool = False):
    low = float(values.min()) if from_lowest else 0.0
    span = float(values.max()) - low
    scaled = (values.float().numpy() - low) / (span or 1.0)
    height, width = image.shape[:2]
    return axes.imshow(
        scaled, cmap='inferno', vmin=0, vmax=1, extent=(0, width, height, 0)
    )
