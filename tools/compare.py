"""Pre-train with several methods under the same conditions and compare them.

Quality (k-NN, linear probe, RankMe, clustering), time and memory of BAM and of the
methods that one would pick instead, on one's own images and machine: a table, JSON, and
a page with pictures. Run the command again to go on after an interruption, or to add
methods and seeds.
"""

from __future__ import annotations

import argparse
import signal
import sys
import warnings

from mmengine.config import DictAction
from rich.console import Console
from rich.table import Table

warnings.filterwarnings('ignore', message='Fail to import')

from mmbam.cli.common import run_command  # noqa: E402
from mmbam.comparison import METHODS, Settings, compare  # noqa: E402
from mmbam.comparison.compare import RESULTS  # noqa: E402
from mmbam.comparison.report import (  # noqa: E402
    cost_table,
    failures,
    own_table,
    quality_table,
    write_report,
)
from mmbam.utils.errors import InputError  # noqa: E402
from mmbam.visualization import page  # noqa: E402


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split('\n\n')[0],
        epilog=f'Methods: {", ".join(METHODS)}.',
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        'data', help='class folders, or train and val folders of them; or any images'
    )
    parser.add_argument('--labelled', help='class folders, if data has no labels')
    parser.add_argument(
        '--methods', nargs='+', default=['bam', 'simclr', 'mocov3'], metavar='METHOD'
    )
    parser.add_argument('--seeds', nargs='+', type=int, default=[0])
    parser.add_argument('--backbone', default='resnet', help='resnet, vit or a config')
    parser.add_argument('--size', type=int, default=32, help='of images, in pixels')
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument('--epochs', type=int, help='budget of each method')
    budget.add_argument('--minutes', type=float, help='budget of each method')
    parser.add_argument('--batch-size', type=int, default=256)
    parser.add_argument('--lr', type=float, default=0.002)
    parser.add_argument('--head-width', type=int, default=512, help='of projectors')
    parser.add_argument('--local-views', type=int, default=4, help='of multi-crop')
    parser.add_argument('--evaluations', type=int, default=5, help='of each run')
    parser.add_argument('--workers', type=int, default=1, help='that load images')
    parser.add_argument(
        '--set',
        nargs='+',
        action=DictAction,
        default={},
        metavar='METHOD.KEY=VALUE',
        help='change the config of one method, as bam.model.head.loss.tau_b=0.03',
    )
    parser.add_argument('--out', default='work_dirs/compare')
    return parser.parse_args()


def options_of(changes: dict) -> dict[str, dict]:
    """Changes by method."""
    options: dict[str, dict] = {}
    for key, value in changes.items():
        name, _, rest = key.partition('.')
        if name not in METHODS or not rest:
            raise InputError(
                f'--set needs METHOD.KEY=VALUE with a method of {", ".join(METHODS)}, '
                f'but got {key!r}.'
            )
        options.setdefault(name, {})[rest] = value
    return options


def show(table: page.Table, title: str) -> None:
    """A table of the page, in the terminal."""
    lines = Table(title=title)
    for number, name in enumerate(table.header):
        lines.add_column(name, justify='right' if number else 'left')
    for row in table.rows:
        lines.add_row(*(_text(cell, table.digits) for cell in row))
    Console().print(lines)


def _text(cell, digits: int) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        return f'{cell[0]:.{digits}f} ± {cell[1]:.{digits}f}'
    return f'{cell:.{digits}f}'


def main() -> None:
    args = vars(parse_args())
    out, methods, seeds = (args.pop(name) for name in ('out', 'methods', 'seeds'))
    settings = Settings(options=options_of(args.pop('set')), **args)
    results = compare(settings, methods, seeds, out)
    path = write_report(results, out)
    print('Shared by all:', *results['shared'], sep='\n  ')
    show(own_table(results), 'Not shared')
    show(quality_table(results), 'Quality')
    show(cost_table(results), 'Cost')
    for sentence in failures(results):
        print(f'Failed: {sentence}')
    print(f'Page: {path.resolve()}\nFigures: {(path.parent / RESULTS).resolve()}')


def stop(number: int, frame) -> None:
    """Stop as Ctrl-C does, and with this process the run that it waits for."""
    raise KeyboardInterrupt


if __name__ == '__main__':
    signal.signal(signal.SIGTERM, stop)
    try:
        run_command(main)
    except KeyboardInterrupt:
        sys.exit('\nStopped. Run the command again to go on.')
