"""Predictions of detectors and segmentors on the same images, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from mmbam.datasets.decoding import read_image

from .figures import overlay, save_figure

# Under the name of each network its samples: dicts of ``path``, ``truth`` and
# ``prediction``, in the same order of images for all networks.
Samples = Mapping[str, Sequence[dict]]


def draw_detections(samples: Samples, names: Sequence[str], path: str | Path) -> None:
    """Draw images, their objects, and what each detector found.

    Truth and prediction are dicts of ``boxes``, ``labels`` and ``masks``.
    """
    colors = _class_colors(len(names))

    def show(axes: Axes, image: np.ndarray, found: dict) -> None:
        for mask, label in zip(found['masks'], found['labels']):
            image = overlay(image, np.where(mask, label, -1), 255 * colors, ignored=-1)
        axes.imshow(image)
        for (x0, y0, x1, y1), label in zip(found['boxes'], found['labels']):
            box = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, lw=1.5)
            box.set_edgecolor(colors[label])
            axes.add_patch(box)
            back = dict(facecolor='black', alpha=0.6, pad=1, edgecolor='none')
            style = dict(fontsize=7, color='white', va='top', clip_on=True, bbox=back)
            axes.text(x0 + 1, y0 + 1, names[label], **style)

    _draw_grid(samples, show, path, 'Detected objects and their masks')


def draw_segmentations(
    samples: Samples, names: Sequence[str], path: str | Path
) -> None:
    """Draw images, the classes of their pixels, and what each segmentor predicts.

    Truth and prediction are maps of class numbers.
    """
    colors = _class_colors(len(names))

    def show(axes: Axes, image: np.ndarray, labels: np.ndarray) -> None:
        labels = labels.astype(int)
        labels[labels >= len(names)] = -1  # 255 is not annotated
        axes.imshow(overlay(image, labels, 255 * colors, ignored=-1))

    flat = [
        sample[part].ravel()
        for of_network in samples.values()
        for sample in of_network
        for part in ('truth', 'prediction')
    ]
    present = np.unique(np.concatenate(flat))
    legend = [Patch(color=colors[k], label=names[k]) for k in present if k < len(names)]
    _draw_grid(samples, show, path, 'Classes of pixels', legend)


def _draw_grid(
    samples: Samples,
    show: Callable[[Axes, np.ndarray, Any], None],
    path: str | Path,
    title: str,
    legend: Sequence[Patch] = (),
) -> None:
    """Draw one row per image: the image, the truth, then each network's answer."""
    first = next(iter(samples.values()), ())
    if not first:
        raise ValueError('A picture of predictions needs at least one image.')
    columns = 2 + len(samples)
    height = 2.3 * len(first) + 0.5 + 0.25 * -(-len(legend) // 6)
    figure = Figure(figsize=(2.3 * columns, height), layout='constrained')
    grid = figure.subplots(len(first), columns, squeeze=False)
    for row, panels in enumerate(grid):
        image = read_image(first[row]['path'])
        panels[0].imshow(image)
        show(panels[1], image, first[row]['truth'])
        for axes, of_network in zip(panels[2:], samples.values()):
            show(axes, image, of_network[row]['prediction'])
    for axes, name in zip(grid[0], ('image', 'truth', *samples)):
        axes.set_title(name, fontsize=10)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
    if legend:
        figure.legend(
            handles=legend, loc='outside lower center', ncols=6, fontsize=8, frameon=0
        )
    figure.suptitle(title)
    save_figure(figure, path)


def _class_colors(number: int) -> np.ndarray:
    # No grays, since the images may be gray. Steps of the golden ratio keep the first
    # colors apart, also where most of the classes are never used.
    return colormaps['gist_rainbow'](np.arange(number) * 0.618 % 1)[:, :3]
