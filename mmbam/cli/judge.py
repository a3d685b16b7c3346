"""Say which checkpoint of a run, and which of several runs, to take without labels.

All networks see the same two views of the same images. --labeled measures how far the
choice can be trusted on your runs.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import SOURCES, add_loader_arguments

if TYPE_CHECKING:
    from mmbam.evaluation.verdict import Judged, Verdict

_HEADER = (
    'checkpoint', 'take', 'neighbors agree (%)', 'positive', 'other', 'entropy A',
    'RankMe',
)  # fmt: skip
# Figures of docs/evaluation.md.
TRUST = (
    "Measured: Spearman's correlation with k-NN is 0.85 within a run and 0.75 between "
    'runs on 21 runs of BAM on made images, 0.91 and 0.90 on 16 runs of three methods '
    'on CIFAR-10; the choice is at most 2.6 points behind the best. Of ten others, 3 '
    'of 3 that collapsed are recognized. Larger images and networks have not been '
    'tried; --labeled DIR measures it on yours. '
    'See "A judge without labels" in docs/evaluation.md.'
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
        '--number', type=int, default=1000, help='number of images to draw'
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
    add_loader_arguments(parser)
    parser.add_argument('--out', type=Path, help='JSON file for the figures')


def run(args: argparse.Namespace) -> dict:
    from mmbam.evaluation.trust import measure_trust
    from mmbam.evaluation.verdict import judge_runs
    from mmbam.utils.files import require_writable, write_text

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
        _show_run(verdict, folder)
    trust = measure_trust(verdict) if verdict.labeled else None
    if trust:
        _show_correlations(trust['correlations'])
        _show_choices(trust['choices'])
    _show_choice(verdict)
    if trust:
        _show_collapse(trust['collapse'])
    else:
        print(TRUST)
    result = _without_nan(dict(verdict.to_dict(), trust=trust))
    if args.out:
        write_text(args.out, json.dumps(result, indent=2))
    return result


def _show_run(verdict: Verdict, folder: str) -> None:
    from mmbam.utils.tables import print_table

    rows = [
        _row(one, verdict.chosen[folder] == one.name, verdict.labeled)
        for one in [verdict.random[folder], *verdict.of_run(folder)]
    ]
    title = f'{folder}: {verdict.images:,} images x 2 views'
    header = [*_HEADER, *(['k-NN (%)'] if verdict.labeled else [])]
    print_table(title, header, rows)
    for phrase in verdict.passed_over.get(folder, []):
        print(f'Passed over: {phrase}')


def _row(one: Judged, chosen: bool, labeled: bool) -> list[str]:
    s = one.signals
    mark = 'collapsed' if one.collapsed else '<--' if chosen else ''
    values = [_number(s.agreement, 1), _number(s.positive), _number(s.other)]
    values += [_number(s.entropy), _number(s.rankme, 1)]
    if labeled:
        values.append(_number(one.knn, 1))
    return [one.checkpoint, mark, *values]


def _show_choice(verdict: Verdict) -> None:
    for folder, name in verdict.chosen.items():
        if name is None:
            print(f'{folder}: every checkpoint is collapsed, take none.')
    if verdict.best is None:
        return
    several = len(verdict.chosen) > 1
    print(f'Take {verdict.best}{" of all runs" if several else ""}.')


def _show_correlations(found: dict[str, dict]) -> None:
    from mmbam.evaluation.judge import DECISIVE, SCORES
    from mmbam.utils.tables import print_table

    columns = {
        'within a run': found['within'],
        'last of each run': found['last'],
        'all checkpoints': found['all'],
    }
    rows = [
        [
            f'{name} (decides)' if name == DECISIVE else name,
            *(_number(column[name]) for column in columns.values()),
        ]
        for name in SCORES
    ]
    numbers = [str(column['number']) for column in columns.values()]
    rows.append(['runs or checkpoints', *numbers])
    print_table("Spearman's correlation with k-NN", ['score', *columns], rows)


def _show_choices(found: dict[str, dict]) -> None:
    from mmbam.utils.tables import print_table

    rows = [
        [text, *(_number(found[key][which], 1) for which in ('behind', 'last_behind'))]
        for text, key in (
            ('of each run, mean', 'mean'),
            ('of each run, worst', 'worst'),
            ('of all runs', 'overall'),
        )
    ]
    header = ['choice', 'the judge', 'the last checkpoint']
    print_table('Points of k-NN behind the best checkpoint', header, rows)


def _show_collapse(found: dict[str, list[str]]) -> None:
    real, seen = set(found['by_labels']), set(found['recognized'])
    print(
        'Runs that end with a k-NN below that of the network before training: '
        f'{len(real)}, recognized as collapsed: {len(real & seen)}. Other runs called '
        f'collapsed: {len(seen - real)}.'
    )


def _number(value: float, digits: int = 2) -> str:
    return '-' if math.isnan(value) else f'{value:.{digits}f}'


def _without_nan(node: Any) -> Any:
    """Replace what JSON has no number for by None."""
    if isinstance(node, dict):
        return {key: _without_nan(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_without_nan(value) for value in node]
    return None if isinstance(node, float) and not math.isfinite(node) else node
