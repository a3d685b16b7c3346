"""The log of a pre-training run, and its entropies of A and B (Fig. 3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mmbam.utils.errors import InputError

from .figures import save_figure

Scalars = Mapping[str, tuple[list[int], list[float]]]
NAMES = {
    'entropy_a': 'A, attention of the views',
    'entropy_b': 'B, balanced target',
}


def read_run(work_dir: str | Path) -> dict[str, tuple[list[int], list[float]]]:
    """Read the logs in a work directory, or one log: steps and values of every scalar.

    Each start of a run writes its own log. Where a later log goes back to an earlier
    step, because the run was resumed from a checkpoint or started again, it replaces
    the earlier values from that step on.
    """
    work_dir = Path(work_dir)
    if not work_dir.exists():
        raise InputError(
            f'There is no {str(work_dir)!r}: name the work directory of a run, or its '
            'scalars.json.'
        )
    logs = [work_dir]
    if work_dir.is_dir():
        # Named after their times. The folder may also be that of a single start.
        logs = sorted(work_dir.glob('*/vis_data/scalars.json'))
        logs = logs or sorted(work_dir.glob('vis_data/scalars.json'))
    if not logs:
        raise InputError(
            f'{str(work_dir)!r} holds no vis_data/scalars.json, which a run writes '
            'into its work directory.'
        )
    course: dict[str, tuple[list[int], list[float]]] = {}
    for log in logs:
        try:
            scalars = _read_scalars(log)
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError):
            raise InputError(
                f'{str(log)!r} is not the log of a run: every line of it must be a '
                'JSON object with a step.'
            ) from None
        for name, new in scalars.items():
            old = course.get(name, ([], []))
            kept = sum(step < new[0][0] for step in old[0])
            course[name] = old[0][:kept] + new[0], old[1][:kept] + new[1]
    return course


def _read_scalars(log: Path) -> dict[str, tuple[list[int], list[float]]]:
    scalars: dict[str, tuple[list[int], list[float]]] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        step = entry.pop('step')
        for name, value in entry.items():
            steps, values = scalars.setdefault(name, ([], []))
            steps.append(step)
            values.append(value)
    return scalars


def draw_entropies(runs: Mapping[str, Scalars], path: str | Path) -> None:
    """Draw the entropies of A and B over the iterations of one or several runs.

    In a healthy run B stays below A and both fall, as the paper describes. ``runs``
    has the result of :func:`read_run` for each run, under the run's name.
    """
    if not runs:
        raise ValueError('A picture of entropies needs at least one run.')
    for name, scalars in runs.items():
        missing = [key for key in NAMES if key not in scalars]
        if missing:
            raise InputError(
                f'The log of {name!r} has no {" and no ".join(missing)}: it is not of '
                'a BAM run, or the run logged nothing yet.'
            )
    figure = Figure(figsize=(7.5, 4.5), layout='constrained')
    axes = figure.subplots()
    one = len(runs) == 1
    for number, scalars in enumerate(runs.values()):
        # One run: a color for each matrix. Several: a color for each run.
        colors = ('C0', 'C1') if one else (f'C{number % 10}',) * 2
        for key, style, color in zip(NAMES, '-:', colors):
            marker = 'o' if len(scalars[key][0]) == 1 else None
            axes.plot(*scalars[key], ls=style, color=color, marker=marker)
    handles = [
        Line2D([], [], ls=style, color=color if one else 'gray', label=label)
        for style, color, label in zip('-:', ('C0', 'C1'), NAMES.values())
    ]
    if not one:
        handles += [
            Line2D([], [], color=f'C{k % 10}', lw=4, label=name)
            for k, name in enumerate(runs)
        ]
    axes.legend(handles=handles)
    axes.set(
        title='Entropy of the attention during training',
        xlabel='Iteration',
        ylabel='Mean entropy of a row (nats)',
    )
    axes.grid(alpha=0.3)
    save_figure(figure, path)
