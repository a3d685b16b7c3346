"""Strips of video frames with the masks that a network found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mmbam.demo.world.layouts import davis_palette
from mmbam.evaluation.video.davis import Video, read_labels


def draw_strips(
    videos: Sequence[Video],
    folder: str | Path,
    path: str | Path,
    title: str = 'Masks propagated from the first frame',
    columns: int = 6,
) -> None:
    """Draw frames of videos, evenly spaced, with the masks of a folder over them.

    Args:
        videos (Sequence[Video]): One row each. Where a frame has an annotation, a white
            line shows its outlines.
        folder (str | Path): Results, ``<sequence>/00000.png`` and so on.
        path (str | Path): PNG to write.
        title (str): Of the figure.
        columns (int): Frames of a video, at most. Defaults to 6.
    """
    if not videos:
        raise ValueError('There are no videos to draw.')
    cell = 2.4
    shapes = [read_labels(video.masks[0]).shape for video in videos]
    heights = [cell * min(h / w, 1.5) + 0.3 for h, w in shapes]
    figure = Figure(figsize=(cell * columns, sum(heights) + 0.9), layout='constrained')
    grid = figure.subplots(len(videos), columns, squeeze=False, height_ratios=heights)
    outlined = False
    for row, video in zip(grid, videos):
        count = min(columns, len(video.frames))
        steps = np.linspace(0, len(video.frames) - 1, count).round().astype(int)
        for axes, step in zip(row, steps):
            labels = read_labels(Path(folder) / video.name / video.masks[step].name)
            axes.imshow(overlay(video.read_frame(step)[..., ::-1], labels))
            if step and video.masks[step].is_file():
                outlined |= _outline(axes, read_labels(video.masks[step]))
            what = 'given' if step == 0 else f'frame {step}'
            axes.set_title(f'{video.name}: {what}' if step == 0 else what, fontsize=9)
        for axes in row:
            axes.set_axis_off()
    if outlined:
        line = Line2D([], [], color='white', label='outline of the annotation')
        figure.legend(
            handles=[line], loc='outside lower right', fontsize=9, facecolor='0.4',
            labelcolor='white',
        )  # fmt: skip
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


def overlay(
    image: np.ndarray, labels: np.ndarray, strength: float = 0.55
) -> np.ndarray:
    """Colour the objects of an image.

    Args:
        image (np.ndarray): RGB of uint8 (h, w, 3).
        labels (np.ndarray): Label map (h, w); 0 is left as it is.
        strength (float): Share of the colour. Defaults to 0.55.
    """
    # Brighter than in the files, where the first objects are of half the intensity.
    colours = np.minimum(255, 1.5 * davis_palette())[labels]
    mixed = (1 - strength) * image + strength * colours
    return np.where(labels[..., None] > 0, mixed, image).astype(np.uint8)


def _outline(axes, labels: np.ndarray) -> bool:
    """Draw the outline of every object; tell whether there was any."""
    present = [k for k in np.unique(labels) if 0 < k < 255]
    for k in present:
        # A frame of zeros closes outlines at the border of the image.
        mask = np.pad(labels == k, 1).astype(float)
        span = [np.arange(-1, side + 1) for side in labels.shape]
        axes.contour(span[1], span[0], mask, [0.5], colors='white', linewidths=0.9)
    height, width = labels.shape
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    return bool(present)
