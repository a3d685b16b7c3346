"""Pictures of a comparison: accuracy over time, nearest neighbors and heat maps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mmbam.checkpoints import load_training_checkpoint
from mmbam.evaluation.loaders import build_dataset
from mmbam.utils.errors import InputError
from mmbam.visualization.figures import save_figure
from mmbam.visualization.heatmaps import draw_heat_maps

from .settings import Settings
from .worker import LOOKS

QUERIES = 4  # rows of each method


def draw_course(
    histories: Mapping[str, Sequence[Sequence[dict]]], path: str | Path
) -> None:
    """Draw k-NN and linear accuracy against seconds and epochs.

    ``histories`` are the evaluations of each seed's run, under each method's title.
    """
    figure = Figure(figsize=(12, 8), layout='constrained')
    grid = figure.subplots(2, 2, sharey='row')
    measures = dict(knn='k-NN top-1 (%)', linear='Linear probe top-1 (%)')
    lengths = dict(seconds='Seconds of training', epoch='Epochs')
    for axes, (key, by) in zip(grid.flat, itertools.product(measures, lengths)):
        for number, (name, runs) in enumerate(histories.items()):
            # With a budget in minutes, runs may differ in their evaluations.
            shared = min(map(len, runs))
            x, y = (
                np.array([[point[k] for point in run[:shared]] for run in runs])
                for k in (by, key)
            )
            x, mean, spread = x.mean(axis=0), y.mean(axis=0), y.std(axis=0)
            color, style = f'C{number % 10}', '-' if number < 10 else '--'
            axes.plot(x, mean, marker='o', ls=style, color=color, label=name)
            if len(runs) > 1:
                axes.fill_between(
                    x, mean - spread, mean + spread, color=color, alpha=0.15
                )
        axes.set_xlabel(lengths[by])
        axes.grid(alpha=0.3)
    for axes, title in zip(grid[:, 0], measures.values()):
        axes.set_ylabel(title)
    # Below the axes: inside, the legend would hide the best curves.
    handles = grid[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc='outside lower center', ncols=5)
    save_figure(figure, path)


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
    looks = {name: _read_look(folder / LOOKS) for name, folder in folders.items()}
    datasets = settings.datasets()
    images: dict[str, dict[int, np.ndarray]] = {}
    for part, key in (('test', 'queries'), ('train', 'neighbours')):
        dataset = build_dataset(datasets[part])
        wanted = {int(i) for of in looks.values() for i in of[key].flatten()}
        images[part] = {
            i: dataset[i]['inputs'].numpy()[::-1].transpose(1, 2, 0)  # BGR to RGB
            for i in sorted(wanted)
        }
    return looks, images


def draw_neighbours(
    looks: Mapping[str, dict],
    images: Mapping[str, Mapping[int, np.ndarray]],
    path: str | Path,
) -> None:
    """Draw test images beside their nearest training images, for each method.

    Looks and images are those of :func:`read_looks`.
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
                color = 'tab:green' if label == of['query_labels'][i] else 'tab:red'
                axes.spines[:].set(color=color, linewidth=2.5)
            for axes in row:
                axes.set(xticks=[], yticks=[])
    save_figure(figure, path)


def draw_heat(
    looks: Mapping[str, dict],
    images: Mapping[str, Mapping[int, np.ndarray]],
    path: str | Path,
) -> bool:
    """Draw heat maps of the test images; return whether any network has them."""
    heat = {name: of['heat'] for name, of in looks.items() if of['heat'] is not None}
    if not heat:
        return False
    queries = next(iter(looks.values()))['queries'].tolist()
    shown = np.stack([images['test'][number] for number in queries])
    draw_heat_maps(shown, heat, path, 'Where the networks look')
    return True


def _read_look(path: Path) -> dict:
    look = load_training_checkpoint(path)
    if not {'queries', 'neighbours', 'heat'} <= look.keys():
        raise InputError(f'{str(path)!r} was not written by a comparison.')
    return look
