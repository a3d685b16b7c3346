"""Pre-train with several methods under the same conditions and compare them.

Shows quality (k-NN, linear probe, RankMe, clustering), time and memory of BAM and of
other methods on your images and machine: as tables, as JSON, and on a page with
pictures. Run the command again to continue after an interruption, or to add methods and
seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mmbam.utils.errors import InputError

from .arguments import Options

if TYPE_CHECKING:
    from mmbam.visualization.page import Table

STOPPED = 'Stopped. Run the command again to continue.'
# As in mmbam.comparison, which takes seconds to import.
CONFIGS = Path(__file__).parents[1] / '.mim' / 'configs' / 'compare'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        f'Methods: {", ".join(sorted(p.stem for p in CONFIGS.glob("*.py")))}.'
    )
    parser.add_argument(
        'data',
        help='folder of class folders, or with train and val folders of them; with '
        '--labeled, a folder of any images',
    )
    parser.add_argument(
        '--labeled',
        '--labelled',  # its name in version 0.1.0
        help='folder of class folders to evaluate on, if data has none',
    )
    parser.add_argument(
        '--methods',
        nargs='+',
        default=['bam', 'simclr', 'mocov3'],
        metavar='METHOD',
        help='names of configs in configs/compare, or paths of your own configs',
    )
    parser.add_argument(
        '--ablations',
        nargs='*',
        metavar='ROW',
        help="run all rows of the paper's Table 1 in place of --methods; or the full "
        'method and the named ones, as no_balancing',
    )
    parser.add_argument(
        '--seeds', nargs='+', type=int, default=[0], help='seeds of each method'
    )
    parser.add_argument(
        '--backbone',
        default='resnet',
        help='resnet, vit, or path of a config with a model.backbone',
    )
    parser.add_argument(
        '--size', type=int, default=32, help='height and width of images in pixels'
    )
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument('--epochs', type=int, help='number of epochs of each run')
    budget.add_argument('--minutes', type=float, help='minutes of training of each run')
    parser.add_argument('--batch-size', type=int, default=256, help='images in a batch')
    parser.add_argument(
        '--lr', type=float, default=0.002, help='peak learning rate of AdamW'
    )
    parser.add_argument(
        '--head-width', type=int, default=512, help='hidden width of all projectors'
    )
    parser.add_argument(
        '--local-views', type=int, default=4, help='smaller crops with multi-crop'
    )
    parser.add_argument(
        '--evaluations', type=int, default=5, help='evaluations of each run'
    )
    parser.add_argument(
        '--workers', type=int, default=1, help='processes that load images'
    )
    parser.add_argument('--amp', action='store_true', help='train in mixed precision')
    parser.add_argument(
        '--keep',
        action='store_true',
        help='keep about as many checkpoints as evaluations, for mmbam judge',
    )
    parser.add_argument(
        '--set',
        nargs='+',
        action=Options,
        default={},
        metavar='METHOD.KEY=VALUE',
        help='change the config of one method, as bam.model.head.loss.tau_b=0.03',
    )
    parser.add_argument(
        '--out', default='work_dirs/compare', help='folder of the comparison'
    )


def options_of(changes: dict, methods: list[str]) -> dict[str, dict]:
    """Sort changes by method."""
    from mmbam.comparison import method_names

    names = [*method_names(), *(Path(m).stem for m in methods if m.endswith('.py'))]
    options: dict[str, dict] = {}
    for key, value in changes.items():
        name, _, rest = key.partition('.')
        if name not in names or not rest:
            raise InputError(
                f'--set needs METHOD.KEY=VALUE with a method of {", ".join(names)}, '
                f'but got {key!r}.'
            )
        options.setdefault(name, {})[rest] = value
    return options


def show(title: str, table: Table) -> None:
    """Print a table of the page in the terminal."""
    from mmbam.utils.tables import print_table

    rows = [[table.show(cell) for cell in row] for row in table.rows]
    print_table(title, table.header, rows)


def run(args: argparse.Namespace) -> dict:
    from mmbam.comparison import Settings, compare
    from mmbam.comparison.ablations import ablation_table, ablations, write_ablations
    from mmbam.comparison.compare import RESULTS
    from mmbam.comparison.report import (
        cost_table,
        failures,
        own_table,
        quality_table,
        write_report,
    )
    from mmbam.utils.logs import only_warnings

    given = dict(vars(args))
    out, methods, seeds = (given.pop(name) for name in ('out', 'methods', 'seeds'))
    table1 = given.pop('ablations')
    methods = methods if table1 is None else ablations(table1)
    options = options_of(given.pop('set'), methods)
    settings = Settings(options=options, **given)
    with only_warnings():  # all of it builds the same data sets many times
        results = compare(settings, methods, seeds, out)
        path = write_report(results, out)
    print('Shared by all:', *results['shared'], sep='\n  ')
    show('Not shared', own_table(results))
    show('Quality', quality_table(results))
    show('Cost', cost_table(results))
    for sentence in failures(results):
        print(f'Failed: {sentence}')
    print(f'Page: {path.resolve()}\nFigures: {(path.parent / RESULTS).resolve()}')
    if table1 is not None:
        page = write_ablations(results, out)
        show('Table 1 of the paper at small scale', ablation_table(results, out))
        print(f'Table 1: {page.resolve()}')
    return results
