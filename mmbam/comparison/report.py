"""Tables and the page of a comparison."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from mmbam.visualization.page import Cell, Picture, Section, Table, write_page

from .pictures import draw_course, draw_heat, draw_neighbours, read_looks
from .settings import Settings

PAGE = 'index.html'
PAPER: list[list[str | float]] = [
    ['MoCo v3', '2 x 224', 5.5, 18.1],
    ['DINO', '2 x 224', 5.8, 18.6],
    ['BAM', '2 x 224', 5.4, 18.3],
]


def finished(results: dict) -> dict[str, list[dict]]:
    """Return the finished runs of each method, under the method's title."""
    runs: dict[str, list[dict]] = {}
    for run in results['runs']:
        if 'error' not in run:
            runs.setdefault(_title(results, run), []).append(run)
    return runs


def quality_table(results: dict) -> Table:
    """Make the table of accuracy and clustering at the end of the runs."""
    rows = []
    for title, runs in finished(results).items():
        last = [{**run, **run['history'][-1]} for run in runs]
        lengths = (f'{_mean(last, key):.0f}' for key in ('epochs', 'train_seconds'))
        scores = ('knn', 'linear', 'rankme', 'nmi', 'ari')
        rows.append([title, *lengths, *(_mean_and_spread(last, k) for k in scores)])
    return Table(
        ['method', 'epochs', 'seconds', 'k-NN (%)', 'linear (%)', 'RankMe', 'NMI (%)']
        + ['ARI (%)'],
        rows,
        'Frozen features of the test images at the end of training. With several '
        'seeds, mean ± standard deviation. Seconds count training only. RankMe is the '
        'effective rank of the features.',
    )


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
        'steps. Memory is the growth of the process while training, counted from '
        'before the model was built (on a GPU, what torch allocated).',
        mark_best=False,
    )


def own_table(results: dict) -> Table:
    """Make the table of what each method does not share with the others."""
    options = results['settings']['options']
    rows = []
    for name, about in results['methods'].items():
        changed = ', '.join(f'{k}={v}' for k, v in options.get(name, {}).items())
        rows.append([about['title'], about['source'], about['own'], changed or '–'])
    return Table(
        ['method', 'source', 'its own', 'set by the user'], rows, mark_best=False
    )


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
    sections = [
        Section(
            'What was done',
            [
                'Each method pre-trained the same network on the same images without '
                'their labels; the labels served to evaluate the frozen network. A '
                'short run of a small network says nothing about ImageNet.',
                *results['shared'],
                own_table(results),
            ],
        )
    ]
    if failed:
        sections.append(Section('What failed', failed))
    if runs:
        course = out / 'course.png'
        draw_course({t: [r['history'] for r in of] for t, of in runs.items()}, course)
        caption = (
            'Accuracy of frozen features against seconds of training and epochs. The '
            'first point is the random network; bands show the standard deviation over '
            'seeds.'
        )
        paper = Table(
            ['method', 'crops', 'hours', 'memory per GPU (GB)'],
            PAPER,
            "The paper's figures, not measured here: 100 epochs of ViT-S/16 on "
            'ImageNet, batch 2048, 16 A100 GPUs.',
            mark_best=False,
        )
        sections += [
            Section('Quality', [quality_table(results), Picture(course, caption)]),
            Section('Cost', [cost_table(results), paper]),
            Section('What the networks see', _looks(results, runs, out)),
        ]
    write_page(out / PAGE, 'Methods side by side', sections)
    return out / PAGE


def _looks(results: dict, runs: dict[str, list[dict]], out: Path) -> list[Picture]:
    settings = Settings(**results['settings'])
    looks, images = read_looks(
        settings,
        {t: out / f'{of[0]["method"]}_seed{of[0]["seed"]}' for t, of in runs.items()},
    )
    draw_neighbours(looks, images, out / 'neighbours.png')
    pictures = [
        Picture(
            out / 'neighbours.png',
            'Test images (left) and their nearest training images, the nearest first. '
            'A green frame marks the same class.',
        )
    ]
    if draw_heat(looks, images, out / 'heat.png'):
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


def _mean_and_spread(runs: Sequence[dict], key: str) -> Cell:
    if len(runs) < 2:
        return _mean(runs, key)
    return _mean(runs, key), statistics.stdev(run[key] for run in runs)
