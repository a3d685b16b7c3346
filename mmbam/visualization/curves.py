"""The course of a pre-training run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from mmbam.utils.errors import InputError

# Figures are made without pyplot: no global state, no display needed.


def read_scalars(path: str | Path) -> dict[str, tuple[list[int], list[float]]]:
    """Read what a run logged.

    Args:
        path (str | Path): ``vis_data/scalars.json`` of a work directory.

    Returns:
        dict[str, tuple[list, list]]: Steps and values of every scalar.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(
            f'{path} does not exist; a run writes vis_data/scalars.json into its work '
            'directory.'
        )
    scalars: dict[str, tuple[list[int], list[float]]] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        step = entry.pop('step')
        for name, value in entry.items():
            steps, values = scalars.setdefault(name, ([], []))
            steps.append(step)
            values.append(value)
    return scalars


def draw_curves(
    scalars: Mapping[str, tuple[list[int], list[float]]],
    path: str | Path,
    accuracies: Mapping[str, float] | None = None,
    title: str = 'Pre-training with BAM',
) -> None:
    """Draw loss, entropies and k-NN accuracy over the iterations.

    Args:
        scalars (Mapping): Of :func:`read_scalars`; uses ``loss``, ``entropy_a``,
            ``entropy_b`` and, where there, ``knn/top1``.
        path (str | Path): PNG to write.
        accuracies (Mapping[str, float], optional): k-NN accuracies to compare with,
            drawn as horizontal lines. Defaults to None.
        title (str): Of the figure.
    """
    missing = {'loss', 'entropy_a', 'entropy_b'} - set(scalars)
    if missing:
        raise InputError(
            f'The log has no {", ".join(sorted(missing))}: it is not of a BAM run, or '
            'the run logged nothing yet.'
        )
    figure = Figure(figsize=(13, 4), layout='constrained')
    left, middle, right = figure.subplots(1, 3)
    left.plot(*scalars['loss'], color='tab:blue')
    left.set(title='Loss', ylabel='Cross-entropy of B and A (nats)')
    for name, label, colour in (
        ('entropy_a', 'A, attention of the views', 'tab:blue'),
        ('entropy_b', 'B, balanced target', 'tab:orange'),
    ):
        middle.plot(*scalars[name], label=label, color=colour)
    middle.set(title='Mean entropy of a row', ylabel='Entropy (nats)')
    middle.legend()
    if 'knn/top1' in scalars:
        right.plot(*scalars['knn/top1'], 'o-', label='while training')
    for k, (label, value) in enumerate((accuracies or {}).items()):
        right.axhline(value, ls='--', label=f'{label}: {value:.1f}', color=f'C{k + 1}')
    right.set(title='k-NN accuracy on test patches', ylabel='Top-1 (%)')
    right.set_ylim(bottom=0)
    if right.get_legend_handles_labels()[0]:
        right.legend()
    for axes in (left, middle, right):
        axes.set_xlabel('Iteration')
        axes.grid(alpha=0.3)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
