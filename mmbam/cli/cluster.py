"""NMI and ARI of k-means on the features of a checkpoint (appendix I)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .arguments import add_evaluation_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_evaluation_arguments(parser)
    parser.add_argument('--test', metavar='DIR', help='class folders to cluster')
    parser.add_argument(
        '--num-classes',
        type=int,
        nargs='+',
        help='numbers of classes to draw; without it, those of 10 20 40 80 160 that '
        'do not exceed the number of classes in the data',
    )
    parser.add_argument('--draws', type=int, default=10, help='draws for each number')
    parser.add_argument('--seed', type=int, default=0, help='seed of draws and k-means')
    parser.add_argument('--out', type=Path, help='JSON file for the figures')


def run(args: argparse.Namespace) -> dict:
    from mmengine.dist import is_main_process

    from mmbam.evaluation import cluster_scores
    from mmbam.utils.files import require_writable, write_text
    from mmbam.utils.tables import print_table

    from .common import FrozenFeatures

    require_writable(args.out, args.config, args.checkpoint)
    features = FrozenFeatures(args)
    data = features.of(features.dataset('test', args.test))
    scores = cluster_scores(*data, args.num_classes, args.draws, args.seed)
    if is_main_process():
        rows = [
            [t, *(f'{s[n]:.2f} ± {s[f"{n}_std"]:.2f}' for n in ('nmi', 'ari'))]
            for t, s in scores.items()
        ]
        print_table('Clustering, in per cent', ['classes', 'NMI', 'ARI'], rows)
        if args.out:
            write_text(args.out, json.dumps(scores, indent=2))
    return scores
