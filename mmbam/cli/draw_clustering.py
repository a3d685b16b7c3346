"""Draw NMI and ARI of several networks against the number of classes (App. I).

`mmbam cluster --out` writes the figures of each network.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mmbam.utils.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'scores', nargs='+', metavar='NAME=JSON', help='name and file of a network'
    )
    parser.add_argument(
        '--out',
        type=Path,
        default='clustering.png',
        help='picture to write',
    )


def run(args: argparse.Namespace) -> Path:
    from mmbam.visualization.cluster_curves import draw_clustering, read_scores

    scores = {}
    for given in args.scores:
        name, equals, path = given.partition('=')
        if not (name and equals and path):
            raise InputError(f'Each network must be NAME=JSON, but got {given!r}.')
        if name in scores:
            raise InputError(f'Two networks have the name {name!r}.')
        scores[name] = read_scores(path)
    draw_clustering(scores, args.out)
    print(f'Wrote {args.out}')
    return args.out
