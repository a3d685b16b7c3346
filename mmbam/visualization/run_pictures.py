"""Pictures of a run while it trains: curves, views, nearest neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from .curves import NAMES, Scalars
from .figures import save_figure


def draw_course(
    scalars: Scalars,
    path: str | Path,
    uniform: float | None = None,
    accuracies: Mapping[str, float] | None = None,
) -> None:
    """Draw loss, entropies, learning rate and, if it is there, k-NN accuracy.

    Args:
        scalars (Mapping): Result of :func:`mmbam.visualization.curves.read_run`.
        path (str | Path): PNG to write.
        uniform (float, optional): Loss, and entropy of A, of a network that says the
            same of all images, drawn as a dashed line. Defaults to None.
        accuracies (Mapping, optional): Other k-NN accuracies by name, drawn as dashed
            lines. Defaults to None.
    """
    figure = Figure(figsize=(11, 6.4), layout='constrained')
    grid = figure.subplots(2, 2)
    loss, entropies, rate, last = grid.flat
    _plot(loss, scalars, 'loss')
    loss.set(title='Loss', ylabel='nats')
    for number, (key, label) in enumerate(NAMES.items()):
        _plot(entropies, scalars, key, label=label, color=f'C{number + 1}')
    entropies.set(title='Entropies of A and B', ylabel='nats')
    for axes in (loss, entropies) if uniform else ():
        axes.axhline(
            uniform, ls='--', color='gray', lw=1, label='nothing learned (uniform)'
        )
    _plot(rate, scalars, 'lr', color='C3')
    rate.set(title='Learning rate')
    if 'knn/top1' in scalars:
        _plot(last, scalars, 'knn/top1', label='while training', color='C4')
        for number, (name, value) in enumerate((accuracies or {}).items(), 5):
            last.axhline(
                value, ls='--', color=f'C{number}', label=f'{name}: {value:.1f}'
            )
        last.set(title='k-NN accuracy on the labeled images', ylabel='top-1 (%)')
    else:
        similarities = (
            ('positive_similarity', 'views of one image', 'C4'),
            ('other_similarity', 'different images', 'C5'),
        )
        for key, label, color in similarities:
            _plot(last, scalars, f'monitor/{key}', label=label, color=color)
        last.set(title='Similarity of latents', ylabel='cosine')
    for axes in grid.flat:
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=9)
        axes.set_xlabel('step')
        axes.grid(alpha=0.3)
    save_figure(figure, path)


def _plot(axes, scalars: Scalars, key: str, **style) -> None:
    if key not in scalars:
        return
    steps, values = scalars[key]
    axes.plot(steps, values, marker='o' if len(steps) < 12 else None, ms=4, **style)


def draw_views(
    rows: Sequence[tuple[np.ndarray, Sequence[np.ndarray]]], path: str | Path
) -> None:
    """Draw a row for each image, RGB of uint8: the image, and its views."""
    columns = [[image, *views] for image, views in rows]
    titles = ['image', *(f'view {k + 1}' for k in range(len(columns[0]) - 1))]
    _draw_grid(columns, titles, path)


def draw_neighbours(
    rows: Sequence[Sequence[np.ndarray]],
    similarities: Sequence[Sequence[float]],
    path: str | Path,
) -> None:
    """Draw a row for each image, RGB of uint8: the image, and its neighbors.

    ``similarities`` are those of each image to its neighbors, by cosine.
    """
    titles = ['image', *(f'neighbor {k + 1}' for k in range(len(rows[0]) - 1))]
    labels = [['', *(f'{value:.2f}' for value in row)] for row in similarities]
    _draw_grid(rows, titles, path, labels)


def _draw_grid(
    rows: Sequence[Sequence[np.ndarray]],
    titles: Sequence[str],
    path: str | Path,
    labels: Sequence[Sequence[str]] | None = None,
) -> None:
    count = len(titles)
    side = min(1.7, 11 / count)
    height = side + (0.25 if labels else 0.05)
    figure = Figure(
        figsize=(side * count, height * len(rows) + 0.3), layout='constrained'
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0)
    grid = figure.subplots(len(rows), count, squeeze=False)
    for number, row in enumerate(rows):
        for column, image in enumerate(row):
            axes = grid[number, column]
            axes.imshow(_square(image))
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if labels:
                axes.set_xlabel(labels[number][column], fontsize=8, labelpad=1)
    for axes, title in zip(grid[0], titles):
        axes.set_title(title, fontsize=9)
    save_figure(figure, path)


def _square(image: np.ndarray) -> np.ndarray:
    """Put an image into the middle of a white square, so that rows and titles align."""
    height, width = image.shape[:2]
    side = max(height, width)
    top, left = (side - height) // 2, (side - width) // 2
    square = np.full((side, side, 3), 255, np.uint8)
    square[top : top + height, left : left + width] = image
    return square
