"""Pictures of a comparison: quality and loss over time, neighbors and heat maps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mmbam.checkpoints import load_training_checkpoint
from mmbam.datasets.decoding import read_image
from mmbam.datasets.transforms.resize import resize_bicubic
from mmbam.evaluation.loaders import build_dataset
from mmbam.visualization.figures import save_figure
from mmbam.visualization.heatmaps import draw_heat_maps

from .settings import Settings
from .worker import LOOKS

QUERIES = 4  # rows of each method
SIDE = 256  # pixels of an image at most: more would not be seen on the page


def draw_course(
    runs: Mapping[str, Sequence[dict]], labeled: bool, path: str | Path
) -> None:
    """Draw the quality of features against seconds and epochs.

    Args:
        runs (Mapping[str, Sequence[dict]]): Results of each seed's run, under each
            method's title.
        labeled (bool): Whether there are accuracies. Else the measures without labels
            are drawn.
        path (str | Path): PNG to write.
    """
    figure = Figure(figsize=(10, 7), layout='constrained')
    grid = figure.subplots(2, 2, sharey='row')
    measures = dict(agreement='Neighbors agree (%)', rankme='RankMe')
    if labeled:
        measures = dict(knn='k-NN top-1 (%)', linear='Linear probe top-1 (%)')
    lengths = dict(seconds='Seconds of training', epoch='Epochs')
    for axes, (key, by) in zip(grid.flat, itertools.product(measures, lengths)):
        for number, (name, of_method) in enumerate(runs.items()):
            x, y = (
                np.array([[point[k] for point in run['history']] for run in of_method])
                for k in (by, key)
            )
            x, mean, spread = x.mean(axis=0), y.mean(axis=0), y.std(axis=0)
            color, style = f'C{number % 10}', '-' if number < 10 else '--'
            axes.plot(x, mean, marker='o', ls=style, color=color, label=name)
            if len(of_method) > 1:
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


def draw_losses(runs: Mapping[str, Sequence[dict]], path: str | Path) -> None:
    """Draw the loss of every run, each method in a panel of its own.

    ``runs`` are those of :func:`draw_course`.
    """
    columns = min(4, len(runs))
    rows = -(-len(runs) // columns)
    figure = Figure(figsize=(10, 2.1 * rows + 0.2), layout='constrained')
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in grid[len(runs) :]:
        axes.set_visible(False)
    for axes, (title, of_method) in zip(grid, runs.items()):
        for run in of_method:
            places = np.linspace(0, run['epochs'], len(run['losses']))
            axes.plot(places, run['losses'])
        axes.set_title(title, fontsize=10)
        axes.set_xlabel('Epochs', fontsize=9)
        axes.grid(alpha=0.3)
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
        ``test`` under their index, in their own resolution.
    """
    looks = {
        name: load_training_checkpoint(folder / LOOKS)
        for name, folder in folders.items()
    }
    datasets = settings.datasets()
    images: dict[str, dict[int, np.ndarray]] = {}
    for part, key in (('test', 'queries'), ('train', 'neighbours')):
        dataset = build_dataset(datasets[part])
        wanted = {int(i) for of in looks.values() for i in of[key].flatten()}
        images[part] = {
            i: _square(read_image(dataset.get_data_info(i)['img_path'])) for i in wanted
        }
    return looks, images


def draw_neighbours(
    looks: Mapping[str, dict],
    images: Mapping[str, Mapping[int, np.ndarray]],
    labeled: bool,
    path: str | Path,
) -> None:
    """Draw test images beside their nearest training images, for each method.

    Looks and images are those of :func:`read_looks`; if they are ``labeled``, frames
    tell which neighbors are of the same class.
    """
    first = next(iter(looks.values()))
    rows = min(QUERIES, len(first['queries']))
    count = first['neighbours'].shape[1]
    columns = min(2, len(looks))
    blocks = -(-len(looks) // columns)
    figure = Figure(
        figsize=(0.8 * (count + 1.2) * columns + 0.3, (0.85 * rows + 0.4) * blocks),
        layout='constrained',
    )
    parts = np.atleast_1d(figure.subfigures(blocks, columns)).flatten()
    for part, (name, of) in zip(parts, looks.items()):
        part.suptitle(name, fontsize=10)
        grid = part.subplots(rows, count + 1, squeeze=False)
        for i, row in enumerate(grid):
            row[0].imshow(images['test'][int(of['queries'][i])])
            for axes, number, same in zip(
                row[1:], of['neighbours'][i], of['same'][i].tolist()
            ):
                axes.imshow(images['train'][int(number)])
                if labeled:
                    color = 'tab:green' if same else 'tab:red'
                    axes.spines[:].set(color=color, linewidth=2.5)
            for axes in row:
                axes.set(xticks=[], yticks=[])
    save_figure(figure, path)


def draw_heat(
    looks: Mapping[str, dict], images: Mapping[int, np.ndarray], path: str | Path
) -> bool:
    """Draw heat maps of the test images; return whether any network has them."""
    heat = {name: of['heat'] for name, of in looks.items() if of['heat'] is not None}
    if not heat:
        return False
    queries = next(iter(looks.values()))['queries'].tolist()
    shown = [images[number] for number in queries]
    draw_heat_maps(shown, heat, path, 'Where the networks look')
    return True


def _square(image: np.ndarray) -> np.ndarray:
    """Cut out the middle that the networks see, in the image's own resolution."""
    side = min(image.shape[:2])
    top, left = ((length - side) // 2 for length in image.shape[:2])
    image = image[top : top + side, left : left + side]
    return image if side <= SIDE else resize_bicubic(image, SIDE, SIDE)
