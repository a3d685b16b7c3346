"""Strips of video frames with the masks that a network found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mmbam.evaluation.video.davis import Video, davis_palette, read_labels
from mmbam.utils.errors import InputError

from .figures import overlay, save_figure

COLUMNS = 6  # frames of a video at most


def draw_strips(
    videos: Sequence[Video], folder: str | Path, path: str | Path, title: str
) -> None:
    """Draw evenly spaced frames of videos, one row each, under the masks of a folder.

    The masks are ``<sequence>/00000.png`` and so on. A white line outlines the
    annotation of a frame that has one.
    """
    if not videos:
        raise InputError('There are no videos to draw.')
    # Brighter than in the files, where the first objects have half the intensity.
    colors = np.minimum(255, 1.5 * davis_palette())
    cell = 2.4
    shapes = [read_labels(video.masks[0]).shape for video in videos]
    heights = [cell * min(h / w, 1.5) + 0.3 for h, w in shapes]
    figure = Figure(figsize=(cell * COLUMNS, sum(heights) + 0.9), layout='constrained')
    grid = figure.subplots(len(videos), COLUMNS, squeeze=False, height_ratios=heights)
    outlined = False
    for row, video in zip(grid, videos):
        count = min(COLUMNS, len(video.frames))
        steps = np.linspace(0, len(video.frames) - 1, count).round().astype(int)
        for axes, step in zip(row, steps):
            labels = read_labels(Path(folder) / video.name / video.masks[step].name)
            axes.imshow(overlay(video.read_frame(step)[..., ::-1], labels, colors))
            if step and video.masks[step].is_file():
                outlined |= _outline(axes, read_labels(video.masks[step]))
            name = f'frame {step}' if step else f'{video.name}: given'
            axes.set_title(name, fontsize=9)
        for axes in row:
            axes.set_axis_off()
    if outlined:
        line = Line2D([], [], color='white', label='outline of the annotation')
        figure.legend(
            handles=[line], loc='outside lower right', fontsize=9, facecolor='0.4',
            labelcolor='white',
        )  # fmt: skip
    figure.suptitle(title)
    save_figure(figure, path)


def _outline(axes: Axes, labels: np.ndarray) -> bool:
    """Outline every object; return whether there was any."""
    present = [k for k in np.unique(labels) if 0 < k < 255]
    for k in present:
        # Zeros around the map close outlines at the border of the image.
        mask = np.pad(labels == k, 1).astype(float)
        span = [np.arange(-1, side + 1) for side in labels.shape]
        axes.contour(span[1], span[0], mask, [0.5], colors='white', linewidths=0.9)
    height, width = labels.shape
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    return bool(present)
