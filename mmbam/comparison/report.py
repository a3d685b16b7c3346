"""Tables and the page of a comparison."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmbam.evaluation.accuracy import standard_error
from mmbam.visualization.page import Cell, Picture, Section, Table, write_page

from .measure_hook import NEIGHBOURS, VIEWED
from .pictures import (
    draw_course,
    draw_heat,
    draw_losses,
    draw_neighbours,
    read_looks,
)
from .settings import Settings

PAGE = 'index.html'


def finished(results: dict) -> dict[str, list[dict]]:
    """Return the finished runs of each method, under the method's title."""
    runs: dict[str, list[dict]] = {}
    for run in results['runs']:
        if 'error' not in run:
            runs.setdefault(_title(results, run), []).append(run)
    return runs


def quality_table(results: dict) -> Table:
    """Make the table of what the features are worth at the end of the runs."""
    header = ['method', 'epochs', 'seconds', 'loss, start to end']
    plain = dict(agreement='neighbors agree (%)', rankme='RankMe')
    accuracies: dict[str, str] = {}
    chance = min(100, 100 * NEIGHBOURS / (min(VIEWED, results['tested']) - 1))
    caption = (
        f'Frozen features of {results["tested"]} test images at the end of training. '
        'Seconds count training only. Losses of different methods are not comparable; '
        'one that never left its start is called stuck, and the rest of its row says '
        'more about the settings and the length of the run than about the method. '
        f'Neighbors agree: share of the {NEIGHBOURS} nearest images that two views of '
        f'an image have in common, {chance:.1f} % by chance. '
        'RankMe: effective rank of the features. '
    )
    if results['classes']:
        accuracies = dict(knn='k-NN (%)', linear='linear (%)')
        plain = dict(nmi='NMI (%)', ari='ARI (%)', **plain)
        caption += (
            'k-NN has 20 neighbors. Accuracies ± the standard error that follows from '
            'the number of images and the spread of the seeds; one is marked if it is '
            'ahead of all others by more than twice the error of their difference.'
        )
    else:
        caption += 'Without labels no method can be called the best.'
    rows = []
    for title, runs in finished(results).items():
        last = [{**run, **run['history'][-1]} for run in runs]
        lengths = (f'{_mean(last, key):.0f}' for key in ('epochs', 'train_seconds'))
        losses = '; '.join(_losses(run) for run in runs)
        errors = (_mean_and_error(last, k, results['tested']) for k in accuracies)
        rows.append(
            [title, *lengths, losses, *errors, *(_mean(last, k) for k in plain)]
        )
    return Table([*header, *accuracies.values(), *plain.values()], rows, caption)


def stuck(run: dict) -> bool:
    """Return whether the loss of a run never left its start.

    It ends no lower than it began, or where it was after the warm-up. In the second
    case it must have begun near there, so that an early end of learning is none.
    """
    losses = np.array(run['losses'])
    if len(losses) < 3:
        return False
    warm, *_, end = (
        part.mean() for part in np.array_split(losses, 10)[1:] if len(part)
    )
    fallen, moved = losses[0] - end, abs(warm - end)
    scale = np.abs(losses).max()
    return bool(
        fallen < 0.01 * scale or (moved < 0.01 * scale and fallen < 0.5 * scale)
    )


def _losses(run: dict) -> str:
    text = f'{run["losses"][0]:.2f} to {run["losses"][-1]:.2f}'
    return f'{text}, stuck' if stuck(run) else text


def cost_table(results: dict) -> Table:
    """Make the table of time and memory of a step."""
    rows = []
    for title, runs in finished(results).items():
        steps = [run['step_seconds'] for run in runs]
        low, median, high = (1000 * _mean(steps, k) for k in ('p10', 'median', 'p90'))
        known = all(run['peak_memory'] is not None for run in runs)
        rows.append(
            [
                title,
                f'{median:.0f}',
                f'{low:.0f} to {high:.0f}',
                f'{_mean(runs, "images_per_second"):.0f}',
                f'{100 * _mean(runs, "wait_share"):.1f}',
                f'{_mean(runs, "peak_memory") / 2**20:.0f}' if known else '–',
            ]
        )
    return Table(
        ['method', 'ms per step', '10 % to 90 %', 'images/s', 'waiting for data (%)']
        + ['peak memory (MB)'],
        rows,
        f'Measured here: {results["machine"]}. Median, 10 % and 90 % quantile of the '
        'steps; they were timed one method after another, so that other jobs on the '
        'machine may have slowed some more than others. Memory is the growth of the '
        'process while training, counted from before the model was built (on a GPU, '
        'what torch allocated).',
    )


def own_table(results: dict) -> Table:
    """Make the table of what each method does not share with the others."""
    options = results['settings']['options']
    rows = []
    for name, about in results['methods'].items():
        changed = ', '.join(f'{k}={v}' for k, v in options.get(name, {}).items())
        rows.append([about['title'], about['source'], about['own'], changed or '–'])
    return Table(['method', 'source', 'its own', 'set by the user'], rows)


def failures(results: dict) -> list[str]:
    """Return a sentence for each run that failed."""
    return [
        f'{_title(results, run)}, seed {run["seed"]}: {run["error"]}'
        for run in results['runs']
        if 'error' in run
    ]


def write_report(results: dict, out: str | Path) -> Path:
    """Draw the pictures of a comparison in its folder and write its page there.

    ``results`` is what :func:`mmbam.comparison.compare` returned.
    """
    out = Path(out)
    runs = finished(results)
    failed = failures(results)
    evaluated = (
        'their labels; the labels served to evaluate the frozen network.'
        if results['classes']
        else 'labels.'
    )
    sections = [
        Section(
            'What was done',
            [
                f'Each method pre-trained the same network on the same images without '
                f'{evaluated} A short run of a small network says nothing about '
                'ImageNet.',
                *results['shared'],
                own_table(results),
            ],
        )
    ]
    if failed:
        sections.append(Section('What failed', failed))
    if runs:
        draw_course(runs, results['classes'] > 0, out / 'course.png')
        draw_losses(runs, out / 'losses.png')
        courses = [
            Picture(
                out / 'course.png',
                'Quality of frozen features against seconds of training and epochs. '
                'The first point is the random network; bands show the standard '
                'deviation over seeds.',
            ),
            Picture(out / 'losses.png', 'Loss of each run; each method has its own.'),
        ]
        sections += [
            Section('Quality', [quality_table(results), *courses]),
            Section('Cost', [cost_table(results)]),
            Section('What the networks see', _looks(results, runs, out)),
        ]
    write_page(out / PAGE, 'Methods side by side', sections)
    return out / PAGE


def _looks(results: dict, runs: dict[str, list[dict]], out: Path) -> list[Picture]:
    looks, images = read_looks(
        Settings(**results['settings']),
        {t: out / f'{of[0]["method"]}_seed{of[0]["seed"]}' for t, of in runs.items()},
    )
    labeled = results['classes'] > 0
    draw_neighbours(looks, images, labeled, out / 'neighbours.png')
    frames = ' A green frame marks the same class, a red one another.' * labeled
    pictures = [
        Picture(
            out / 'neighbours.png',
            'Test images (left) and their nearest training images, the nearest first.'
            + frames,
        )
    ]
    if draw_heat(looks, images['test'], out / 'heat.png'):
        pictures.append(
            Picture(
                out / 'heat.png',
                'Heat maps: attention from [cls] in the last block of a ViT, sum of '
                'the last feature maps of a CNN.',
            )
        )
    return pictures


def _title(results: dict, run: dict) -> str:
    return results['methods'][run['method']]['title']


def _mean(runs: Sequence[dict], key: str) -> float:
    return statistics.mean(run[key] for run in runs)


def _mean_and_error(runs: Sequence[dict], key: str, tested: int) -> Cell:
    mean = _mean(runs, key)
    error = standard_error(mean, tested)
    if len(runs) > 1:
        spread = statistics.stdev(run[key] for run in runs)
        error = math.hypot(error, spread / math.sqrt(len(runs)))
    return mean, error
