"""What detectors and segmentors see in the same images, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from mmbam.datasets.images import read_image

STRENGTH = 0.55
PARTS = ('truth', 'prediction')


def draw_detections(
    samples: Mapping[str, Sequence[dict]],
    names: Sequence[str],
    path: str | Path,
    title: str = 'Detected objects and their masks',
) -> None:
    """Draw images, their objects, and what each detector found.

    Args:
        samples (Mapping[str, Sequence[dict]]): Under the name of each detector the
            ``samples`` of :func:`mmbam.demo.dense.train_dense`, of the same
            images in the same order.
        names (Sequence[str]): Of the classes.
        path (str | Path): PNG to write.
        title (str): Above the picture.
    """

    def show(axes: Axes, image: np.ndarray, instances: dict) -> None:
        mixed = image.astype(float)
        for mask, label in zip(instances['masks'], instances['labels']):
            colour = 255 * np.array(_colours(len(names))[label][:3])
            mixed[mask] = (1 - STRENGTH) * mixed[mask] + STRENGTH * colour
        axes.imshow(mixed.astype(np.uint8))
        for (x0, y0, x1, y1), label in zip(instances['boxes'], instances['labels']):
            colour = _colours(len(names))[label]
            axes.add_patch(
                Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, ec=colour, lw=1.5)
            )
            axes.text(
                x0 + 1,
                y0 + 1,
                names[label],
                fontsize=7,
                color='white',
                va='top',
                clip_on=True,
                bbox=dict(facecolor='black', alpha=0.6, pad=1, edgecolor='none'),
            )

    _draw_grid(samples, show, path, title)


def draw_segmentations(
    samples: Mapping[str, Sequence[dict]],
    names: Sequence[str],
    path: str | Path,
    title: str = 'Classes of pixels',
) -> None:
    """Draw images, the classes of their pixels, and what each segmentor says.

    Args:
        samples (Mapping[str, Sequence[dict]]): As in :func:`draw_detections`.
        names (Sequence[str]): Of the classes.
        path (str | Path): PNG to write.
        title (str): Above the picture.
    """
    colours = np.array(_colours(len(names)))[:, :3]

    def show(axes: Axes, image: np.ndarray, labels: np.ndarray) -> None:
        known = labels < len(names)  # 255 is not annotated
        mixed = image.astype(float)
        of_class = 255 * colours[labels[known]]
        mixed[known] = (1 - STRENGTH) * mixed[known] + STRENGTH * of_class
        axes.imshow(mixed.astype(np.uint8))

    maps = [s[k] for each in samples.values() for s in each for k in PARTS]
    present = [int(k) for k in np.unique(np.concatenate([m.ravel() for m in maps]))]
    legend = [
        Patch(color=colours[k], label=names[k]) for k in present if k < len(names)
    ]
    _draw_grid(samples, show, path, title, legend)


def _draw_grid(
    samples: Mapping[str, Sequence[dict]],
    show: Callable[[Axes, np.ndarray, Any], None],
    path: str | Path,
    title: str,
    legend: Sequence[Patch] = (),
) -> None:
    """One row for each image: itself, the truth, then each network's answer."""
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
    figure.savefig(path, dpi=110)


def _colours(number: int) -> list[tuple[float, ...]]:
    # No greys: the images may be grey.
    return [colormaps['gist_rainbow'](k / number) for k in range(number)]
