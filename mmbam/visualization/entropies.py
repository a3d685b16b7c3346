"""The course of the entropies of A and B (paper, Fig. 3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mmbam.utils.errors import InputError

from .curves import read_scalars

Scalars = Mapping[str, tuple[list[int], list[float]]]


def read_run(work_dir: str | Path) -> dict[str, tuple[list[int], list[float]]]:
    """Read what a run logged, over all its starts.

    Each start of a run writes a log of its own. Where a later one goes back to an
    earlier step, because it resumed from a checkpoint or began anew, it counts from
    there on.

    Args:
        work_dir (str | Path): Work directory of a run, or one ``scalars.json``.

    Returns:
        dict[str, tuple[list, list]]: Steps and values of every scalar.
    """
    work_dir = Path(work_dir)
    if work_dir.is_dir():
        # Named after their times; the log may also be that of one start.
        logs = sorted(work_dir.glob('*/vis_data/scalars.json'))
        logs = logs or sorted(work_dir.glob('vis_data/scalars.json'))
        if not logs:
            raise InputError(
                f'{str(work_dir)!r} holds no vis_data/scalars.json, which a run writes '
                'into its work directory.'
            )
    else:
        logs = [work_dir]
    course: dict[str, tuple[list[int], list[float]]] = {}
    for log in logs:
        try:
            scalars = read_scalars(log)
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError):
            raise InputError(
                f'{str(log)!r} is not the log of a run: every line of it must be a '
                'JSON object with a step.'
            ) from None
        for name, (steps, values) in scalars.items():
            old_steps, old_values = course.get(name, ([], []))
            kept = [k for k, step in enumerate(old_steps) if step < steps[0]]
            course[name] = (
                [old_steps[k] for k in kept] + steps,
                [old_values[k] for k in kept] + values,
            )
    return course


def draw_entropies(
    runs: Mapping[str, Scalars],
    path: str | Path,
    title: str = 'Entropy of the attention during training',
) -> None:
    """Draw the entropies of A and B over the iterations, of one or several runs.

    In a healthy run B stays below A and both fall, as the paper describes.

    Args:
        runs (Mapping[str, Mapping]): Under each run's name what :func:`read_run`
            returns.
        path (str | Path): PNG to write.
        title (str): Of the figure.
    """
    if not runs:
        raise ValueError('A picture of entropies needs at least one run.')
    for name, scalars in runs.items():
        missing = [key for key in ('entropy_a', 'entropy_b') if key not in scalars]
        if missing:
            raise InputError(
                f'The log of {name!r} has no {" and no ".join(missing)}: it is not of '
                'a BAM run, or the run logged nothing yet.'
            )
    figure = Figure(figsize=(7.5, 4.5), layout='constrained')
    axes = figure.subplots()
    for number, scalars in enumerate(runs.values()):
        # One run: a colour for each matrix. Several: a colour for each run.
        colours = ('C0', 'C1') if len(runs) == 1 else (f'C{number % 10}',) * 2
        for key, style, colour in zip(('entropy_a', 'entropy_b'), '-:', colours):
            marker = 'o' if len(scalars[key][0]) == 1 else None
            axes.plot(*scalars[key], ls=style, color=colour, marker=marker)
    colours = ('C0', 'C1') if len(runs) == 1 else ('grey', 'grey')
    handles = [
        Line2D([], [], ls='-', color=colours[0], label='A, attention of the views'),
        Line2D([], [], ls=':', color=colours[1], label='B, balanced target'),
    ]
    if len(runs) > 1:
        handles += [
            Line2D([], [], color=f'C{k % 10}', lw=4, label=name)
            for k, name in enumerate(runs)
        ]
    axes.legend(handles=handles)
    axes.set(title=title, xlabel='Iteration', ylabel='Mean entropy of a row (nats)')
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
