"""Table 1 of the paper at small scale: the full method, and without each ingredient.

The rows are configs in ``configs/compare/ablations/``, which
:func:`mmbam.comparison.compare` runs as it runs other methods.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mmbam.utils.errors import InputError
from mmbam.visualization.curves import NAMES, read_run
from mmbam.visualization.figures import save_figure
from mmbam.visualization.page import Cell, Picture, Section, Table, write_page

from .settings import FOLDER

PAGE, PICTURE = 'ablations.html', 'ablation_entropies.png'
FULL = 'full'
# Top-1 of the linear probe, ViT-S/16 after 150 epochs on ImageNet. None: collapse.
PAPER = {
    FULL: 73.7,
    'no_positive_mask': 72.6,
    'no_global_norm': 60.7,
    'no_balancing': None,
    'no_multi_crop': 68.1,
    'no_teacher': 72.3,
    'no_contrastive_crop': 73.5,
}
# A difference counts from this probability on that chance made it.
LEVEL = 0.05


def ablations(rows: Sequence[str] = ()) -> list[str]:
    """Return the configs of rows of Table 1, the full method first.

    Args:
        rows (Sequence[str]): Names of rows; the full method is added. Defaults to (),
            all rows.
    """
    for row in rows:
        if row not in PAPER:
            raise InputError(
                f'There is no row {row!r} of Table 1, only {", ".join(PAPER)}.'
            )
    names = [name for name in PAPER if not rows or name in (FULL, *rows)]
    return [str(FOLDER / 'ablations' / f'{name}.py') for name in names]


def ablation_table(results: dict, out: str | Path) -> Table:
    """Make Table 1 with the paper's figures beside ours.

    Args:
        results (dict): Result of :func:`mmbam.comparison.compare`, which may be of an
            unfinished experiment. Other methods than those of Table 1 are left out.
        out (str | Path): Folder of the comparison, with the logs of its runs.
    """
    runs = _by_row(results)
    rows: list[list[Cell]] = []
    for name, of in runs.items():
        last = {seed: run['history'][-1] for seed, run in of.items()}
        differences = _minus_full(runs, name, 'linear')
        entropies = [_last_entropies(_folder(out, name, seed)) for seed in of]
        rows.append(
            [
                results['methods'][name]['title'],
                str(len(of)),
                *(
                    _spread([p[key] for p in last.values()])
                    for key in ('linear', 'knn')
                ),
                '–' if name == FULL else _spread(differences),
                statistics.mean(point['rankme'] for point in last.values()),
                *(_mean(values) for values in zip(*entropies)),
                f'{len(_fallen(of))} of {len(of)}',
                'collapse' if PAPER[name] is None else f'{PAPER[name]:.1f}',
                _paper_difference(name),
                verdict(runs, name),
            ]
        )
    return Table(
        ['row of Table 1', 'seeds', 'linear (%)', 'k-NN (%)', 'linear minus full']
        + ['RankMe', 'entropy A', 'entropy B', 'below random network']
        + ['paper, linear (%)', 'paper, minus full', 'as in the paper'],
        rows,
        'Mean ± standard deviation over the seeds, at the end of training; differences '
        'are taken seed by seed. Entropies in nats, mean of the last tenth of the log. '
        '"Below random network": runs whose k-NN accuracy is lower at the end than '
        "before training. The paper's figures are for ViT-S/16 after 150 epochs on "
        'ImageNet, so that orders can be compared, but no numbers. A row is called as '
        'in the paper, or not, where a paired t-test over at least 3 seeds gives less '
        f'than {LEVEL:g} for the sign of its difference; five tests find something by '
        'chance in one experiment of four. Without balancing, it is as in the paper if '
        'all runs end below the random network.',
    )


def verdict(runs: dict[str, dict[int, dict]], name: str) -> str:
    """Say whether a row comes out as in the paper.

    Args:
        runs (dict): Finished runs by seed, under the names of their rows.
        name (str): Name of the row.
    """
    if name == FULL:
        return '–'
    if PAPER[name] is None:
        fallen, of = len(_fallen(runs[name])), len(runs[name])
        return 'yes' if fallen == of else 'no' if fallen == 0 else 'in part'
    differences = _minus_full(runs, name, 'linear')
    if len(differences) < 3:
        return 'too few seeds'
    if np.ptp(differences) > 0:
        # Late, because hooks import mmbam.evaluation and do not need scipy.
        from scipy.stats import ttest_1samp

        if ttest_1samp(differences, 0).pvalue >= LEVEL:
            return 'no clear difference'
    # Every ingredient helps in the paper.
    return 'yes' if statistics.mean(differences) < 0 else 'no'


def draw_ablation_entropies(results: dict, out: str | Path, path: str | Path) -> None:
    """Draw the entropies of A and B of every row, a line for each seed.

    ``results`` and ``out`` are those of :func:`ablation_table`.
    """
    runs = _by_row(results)
    figure = Figure(figsize=(14, 6.5), layout='constrained')
    grid = figure.subplots(2, 4, sharex=True, sharey=True).flat
    for axes in grid[len(runs) :]:
        axes.set_axis_off()
    for axes, (name, of) in zip(grid, runs.items()):
        for number, seed in enumerate(of):
            scalars = _read(_folder(out, name, seed))
            for key, style, color in zip(NAMES, '-:', ('C0', 'C1')):
                if key in scalars:
                    label = NAMES[key] if number == 0 else None
                    axes.plot(*scalars[key], ls=style, color=color, label=label)
        axes.set_title(results['methods'][name]['title'])
        axes.set(xlabel='Iteration', ylabel='Entropy of a row (nats)')
        axes.label_outer()
        axes.grid(alpha=0.3)
    handles = grid[0].get_legend_handles_labels()
    if handles[0]:
        figure.legend(*handles, loc='outside lower center', ncols=2)
    save_figure(figure, path)


def write_ablations(results: dict, out: str | Path) -> Path:
    """Write the page of the ablations, with its picture, into a comparison's folder.

    ``results`` and ``out`` are those of :func:`ablation_table`.
    """
    out = Path(out)
    draw_ablation_entropies(results, out, out / PICTURE)
    sections = [
        Section('Accuracy', [ablation_table(results, out)]),
        Section(
            'Entropies',
            [
                Picture(
                    out / PICTURE,
                    'Mean entropies of the rows of A and B during training, a line for '
                    'each seed. While both are level at the top, all rows are uniform '
                    'and nothing is learned.',
                ),
            ],
        ),
        Section('What was done', list(results['shared'])),
    ]
    write_page(out / PAGE, 'Table 1 of the paper at small scale', sections)
    return out / PAGE


def _by_row(results: dict) -> dict[str, dict[int, dict]]:
    """Finished runs by seed, under the names of their rows in the order of Table 1."""
    runs: dict[str, dict[int, dict]] = {name: {} for name in PAPER}
    for run in results['runs']:
        if run['method'] in runs and 'error' not in run:
            runs[run['method']][run['seed']] = run
    runs = {name: of for name, of in runs.items() if of}
    if not runs:
        raise InputError(
            'The comparison has no finished run of a row of Table 1: '
            f'{", ".join(PAPER)}.'
        )
    return runs


def _minus_full(runs: dict[str, dict[int, dict]], name: str, key: str) -> list[float]:
    """Accuracy of a row minus that of the full method with the same seed."""
    full = runs.get(FULL, {})
    return [
        run['history'][-1][key] - full[seed]['history'][-1][key]
        for seed, run in runs[name].items()
        if seed in full and name != FULL
    ]


def _fallen(runs: dict[int, dict]) -> list[int]:
    """Seeds whose network is worse than before training."""
    return [
        seed
        for seed, run in runs.items()
        if run['history'][-1]['knn'] < run['history'][0]['knn']
    ]


def _paper_difference(name: str) -> str:
    value, full = PAPER[name], PAPER[FULL]
    if name == FULL or value is None or full is None:
        return '–'
    return f'{value - full:.1f}'


def _folder(out: str | Path, name: str, seed: int) -> Path:
    return Path(out) / f'{name}_seed{seed}'


def _read(folder: Path) -> dict[str, tuple[list[int], list[float]]]:
    try:
        return read_run(folder)
    except InputError:  # a run too short for a log
        return {}


def _last_entropies(folder: Path) -> list[float | None]:
    scalars = _read(folder)
    ends: list[float | None] = []
    for key in NAMES:
        values = scalars.get(key, ([], []))[1]
        last = values[-max(1, len(values) // 10) :]
        ends.append(statistics.mean(last) if last else None)
    return ends


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.mean(known) if known else None


def _spread(values: Sequence[float]) -> Cell:
    if not values:
        return None
    if len(values) < 2:
        return values[0]
    return statistics.mean(values), statistics.stdev(values)
