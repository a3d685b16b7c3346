"""Pictures of a comparison: accuracy over time, nearest neighbors and heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from mmbam.evaluation.loaders import build_dataset
from mmbam.visualization.heatmaps import draw_heat_maps

from .settings import Settings
from .worker import LOOKS

QUERIES = 4  # rows of each method


def draw_course(
    histories: Mapping[str, Sequence[Sequence[dict]]], path: str | Path
) -> None:
    """Draw k-NN and linear accuracy against seconds and epochs.

    Args:
        histories (Mapping[str, Sequence]): Evaluations of each seed's run, under each
            method's title.
        path (str | Path): PNG to write.
    """
    figure = Figure(figsize=(12, 8), layout='constrained')
    grid = figure.subplots(2, 2, sharey='row')
    for row, (key, title) in zip(
        grid, (('knn', 'k-NN top-1 (%)'), ('linear', 'Linear probe top-1 (%)'))
    ):
        for axes, by, label in zip(
            row, ('seconds', 'epoch'), ('Seconds of training', 'Epochs')
        ):
            for number, (name, runs) in enumerate(histories.items()):
                # With a budget in minutes, runs may differ in their evaluations.
                length = min(map(len, runs))
                x, y = (
                    np.array([[point[k] for point in run[:length]] for run in runs])
                    for k in (by, key)
                )
                color, style = f'C{number % 10}', '-' if number < 10 else '--'
                mean, spread = y.mean(axis=0), y.std(axis=0)
                x = x.mean(axis=0)
                axes.plot(x, mean, marker='o', ls=style, color=color, label=name)
                if len(runs) > 1:
                    axes.fill_between(
                        x, mean - spread, mean + spread, color=color, alpha=0.15
                    )
            axes.set_xlabel(label)
            axes.grid(alpha=0.3)
        row[0].set_ylabel(title)
    # Below the axes: inside, the legend would hide the best curves.
    handles = grid[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc='outside lower center', ncols=5)
    figure.savefig(path, dpi=110)


def read_looks(
    settings: Settings, folders: Mapping[str, Path]
) -> tuple[dict[str, dict], dict[str, dict[int, np.ndarray]]]:
    """Read neighbors and heat maps that the runs saved, and the images they name.

    Args:
        settings (Settings): Settings of the comparison.
        folders (Mapping[str, Path]): Folder of one run, under each method's title.

    Returns:
        tuple: What the runs saved, under each title; RGB images of ``train`` and
        ``test`` under their index.
    """
    looks = {
        name: torch.load(folder / LOOKS, weights_only=True)
        for name, folder in folders.items()
    }
    datasets = settings.datasets()
    images: dict[str, dict[int, np.ndarray]] = {}
    for part, key in (('test', 'queries'), ('train', 'neighbours')):
        dataset = build_dataset(datasets[part])
        wanted = {int(i) for of in looks.values() for i in of[key].flatten()}
        images[part] = {i: _rgb(dataset[i]['inputs']) for i in sorted(wanted)}
    return looks, images


def draw_neighbours(
    looks: Mapping[str, dict],
    images: Mapping[str, Mapping[int, np.ndarray]],
    path: str | Path,
) -> None:
    """Draw test images beside their nearest training images, for each method.

    Args:
        looks (Mapping[str, dict]): First result of :func:`read_looks`.
        images (Mapping[str, Mapping]): Second result of :func:`read_looks`.
        path (str | Path): PNG to write.
    """
    first = next(iter(looks.values()))
    rows = min(QUERIES, len(first['queries']))
    count = first['neighbours'].shape[1]
    columns = min(3, len(looks))
    blocks = -(-len(looks) // columns)
    figure = Figure(
        figsize=(0.75 * (count + 1.5) * columns + 0.5, (0.8 * rows + 0.5) * blocks),
        layout='constrained',
    )
    parts = np.atleast_1d(figure.subfigures(blocks, columns)).flatten()
    for part, (name, of) in zip(parts, looks.items()):
        part.suptitle(name, fontsize=10)
        grid = part.subplots(rows, count + 1, squeeze=False)
        for i, row in enumerate(grid):
            row[0].imshow(images['test'][int(of['queries'][i])])
            for axes, number, label in zip(
                row[1:], of['neighbours'][i], of['neighbour_labels'][i]
            ):
                axes.imshow(images['train'][int(number)])
                same = int(label) == int(of['query_labels'][i])
                for spine in axes.spines.values():
                    spine.set(color='tab:green' if same else 'tab:red', linewidth=2.5)
            for axes in row:
                axes.set_xticks([])
                axes.set_yticks([])
    figure.savefig(path, dpi=110)


def draw_heat(
    looks: Mapping[str, dict],
    images: Mapping[str, Mapping[int, np.ndarray]],
    path: str | Path,
) -> bool:
    """Draw heat maps of the test images, if any network has them.

    Args:
        looks (Mapping[str, dict]): First result of :func:`read_looks`.
        images (Mapping[str, Mapping]): Second result of :func:`read_looks`.
        path (str | Path): PNG to write.

    Returns:
        bool: Whether there were heat maps to draw.
    """
    heat = {name: of['heat'] for name, of in looks.items() if of['heat'] is not None}
    if not heat:
        return False
    queries = next(iter(looks.values()))['queries'].tolist()
    shown = np.stack([images['test'][number] for number in queries])
    draw_heat_maps(shown, heat, path, 'Where the networks look')
    return True


def _rgb(image: torch.Tensor) -> np.ndarray:
    return image.numpy()[::-1].transpose(1, 2, 0)
