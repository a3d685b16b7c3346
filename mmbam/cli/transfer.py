"""Linear transfer: logistic regression on the features of a checkpoint."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mmbam.utils.errors import InputError

from .arguments import add_evaluation_arguments

#: Names that mmbam.evaluation.transfer knows; importing it takes seconds.
SETS = ('food101', 'cifar10', 'cifar100', 'cars', 'aircraft', 'pets', 'flowers')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_evaluation_arguments(parser)
    parser.add_argument(
        'data',
        nargs='+',
        metavar='NAME=ROOT',
        help=f'data sets to transfer to: {", ".join(SETS)}, or any other name '
        'for class folders in ROOT/train, ROOT/test and optionally ROOT/val',
    )
    parser.set_defaults(size=224)
    parser.add_argument(
        '--val-fraction',
        type=float,
        default=0.2,
        help='share of the training set held out if there is no ROOT/val',
    )
    parser.add_argument('--out', type=Path, help='JSON file for the figures')


def run(args: argparse.Namespace) -> dict:
    from mmengine.dist import is_main_process

    from mmbam.evaluation.loaders import build_dataset, require_comparable
    from mmbam.evaluation.transfer import (
        table_rows,
        transfer_datasets,
        transfer_row,
    )
    from mmbam.utils.files import require_writable, write_text
    from mmbam.utils.tables import print_table

    from .common import FrozenFeatures

    require_writable(args.out, args.config, args.checkpoint)
    wrong = [entry for entry in args.data if not all(entry.partition('='))]
    if wrong:
        raise InputError(f'Data sets are given as NAME=ROOT, but got {wrong[0]!r}.')
    if not 0 < args.val_fraction < 1:
        raise InputError(f'--val-fraction must be in (0, 1), got {args.val_fraction}.')
    # All of them first, so that a wrong one is noticed before hours of work.
    datasets = {
        name: {
            split: cfg and build_dataset(cfg)
            for split, cfg in transfer_datasets(name, root, args.size).items()
        }
        for name, root in (entry.split('=', 1) for entry in args.data)
    }
    for splits in datasets.values():
        require_comparable(splits['train'], splits['test'])
    features = FrozenFeatures(args)
    rows = {
        name: transfer_row(splits, features.of, args.val_fraction)
        for name, splits in datasets.items()
    }
    if is_main_process():
        header = ['data set', 'top-1', 'per class', 'l2']
        print_table('Accuracy in per cent', header, table_rows(rows))
        if args.out:
            write_text(args.out, json.dumps(rows, indent=2))
    return rows
