"""Say which checkpoint of a run, and which of several runs, to take without labels.

All networks see the same two views of the same images. How far the choice can be
trusted has not been measured on real runs yet; --labeled measures it on yours.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from mmbam.checkpoints.selection import SOURCES
from mmbam.evaluation.judge import SCORES
from mmbam.evaluation.verdict import Judged, Verdict, judge_runs
from mmbam.utils.files import require_writable, write_text
from mmbam.utils.tables import print_table

_HEADER = (
    'checkpoint', 'take', 'RankMe', 'LiDAR', 'alpha', 'positive', 'other',
    'neighbors agree (%)', 'entropy A', 'entropy B',
)  # fmt: skip
UNTRIED = (
    'How far this choice can be trusted has not been measured on real runs yet. '
    '--labeled DIR measures it on these.'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'runs', nargs='+', metavar='RUN', help='work directories with checkpoints'
    )
    parser.add_argument(
        '--images',
        metavar='DIR',
        help='folder of images; without it, training images of the first run',
    )
    parser.add_argument(
        '--number', type=int, default=500, help='number of images to draw'
    )
    parser.add_argument(
        '--labeled',
        '--labelled',
        metavar='DIR',
        help='class folders (or train and val of them), on which k-NN is measured and '
        'compared with the signals; it has no say in the choice',
    )
    parser.add_argument(
        '--config',
        help='config of all runs; without it, the one in each work directory, which is '
        'run, or else what the checkpoint says, which is not',
    )
    parser.add_argument(
        '--source',
        choices=SOURCES,
        default='auto',
        help='which network of a checkpoint to take; auto prefers the teacher',
    )
    parser.add_argument(
        '--seed', type=int, default=0, help='seed of the choice of images and views'
    )
    parser.add_argument('--batch-size', type=int, default=64, help='images per batch')
    parser.add_argument(
        '--num-workers', type=int, default=2, help='processes that load images'
    )
    parser.add_argument('--out', type=Path, help='JSON file for the figures')


def run(args: argparse.Namespace) -> dict:
    read = [path for folder in args.runs for path in Path(folder).glob('*.p*')]
    require_writable(args.out, args.config, *read)
    verdict = judge_runs(
        args.runs,
        config=args.config,
        images=args.images,
        number=args.number,
        labeled=args.labeled,
        source=args.source,
        seed=args.seed,
        batch_size=args.batch_size,
        num_workers=args.num_workers,
    )
    for folder in verdict.chosen:
        _show_run(verdict, folder, args.labeled is not None)
    _show_choice(verdict)
    if args.labeled is None:
        print(UNTRIED)
    else:
        _show_trust(verdict)
    result = verdict.to_dict()
    if args.out:
        write_text(args.out, json.dumps(result, indent=2))
    return result


def _show_run(verdict: Verdict, folder: str, labeled: bool) -> None:
    rows = [
        _row(one, verdict.chosen[folder] == one.name, labeled)
        for one in verdict.of_run(folder)
    ]
    title = f'{folder}: {verdict.images:,} images x 2 views'
    print_table(title, [*_HEADER, *(['k-NN (%)'] if labeled else [])], rows)
    for phrase in verdict.passed_over.get(folder, []):
        print(f'Passed over: {phrase}')


def _row(one: Judged, chosen: bool, labeled: bool) -> list[str]:
    s = one.signals
    mark = 'collapsed' if s.collapsed else '<--' if chosen else ''
    values = [_number(s.rankme, 1), _number(s.lidar, 1)]
    values += [_number(x) for x in (s.alpha, s.positive, s.other)]
    values += [_number(s.agreement, 1), _number(s.entropy_a), _number(s.entropy_b)]
    if labeled:
        values.append(_number(one.knn))
    return [one.checkpoint, mark, *values]


def _show_choice(verdict: Verdict) -> None:
    for folder, name in verdict.chosen.items():
        if name is None:
            print(f'{folder}: every checkpoint is collapsed, take none.')
    if verdict.best is None:
        return
    several = len(verdict.chosen) > 1
    print(f'Take {verdict.best}{" of all runs" if several else ""}.')


def _show_trust(verdict: Verdict) -> None:
    found = verdict.correlations()
    rows = [
        [name, *(_number(values[name]) for values in found.values())]
        for name in [*SCORES, 'ranking']
    ]
    rows.append(['checkpoints', *(str(v['number']) for v in found.values())])
    print_table("Spearman's correlation with k-NN", ['score', *found], rows)
    known = [o for o in verdict.checkpoints if o.knn is not None and o.knn == o.knn]
    chosen = [o for o in known if o.name == verdict.best]
    if chosen:
        most = max(known, key=lambda one: one.knn or 0.0)
        print(
            f'k-NN of the choice {_number(chosen[0].knn)} %, of the best checkpoint, '
            f'{most.name}, {_number(most.knn)} %.'
        )
    print('This holds for these checkpoints alone; a few of them say little.')


def _number(value: float | None, digits: int = 2) -> str:
    return '-' if value is None or math.isnan(value) else f'{value:.{digits}f}'
