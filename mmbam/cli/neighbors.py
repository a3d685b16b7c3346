"""Write a page with the nearest images of some queries and the near-duplicates.

The search is exact: the embeddings of all images are compared, block by block.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mmbam.utils.errors import InputError

from .arguments import add_image_arguments

#: What to say after Ctrl-C.
STOPPED = 'Stopped. The same command goes on where it stopped.'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_image_arguments(parser)
    parser.add_argument(
        '--query',
        nargs='+',
        metavar='FILE',
        help='images whose neighbors are shown; without it, some of the folder are',
    )
    parser.add_argument(
        '--num-queries',
        type=int,
        default=8,
        help='number of queries from the folder, where --query names none',
    )
    parser.add_argument('--k', type=int, default=8, help='neighbors of each query')
    parser.add_argument(
        '--threshold',
        type=float,
        default=0.98,
        help='cosine similarity from which on two images are near-duplicates',
    )
    parser.add_argument(
        '--pairs', type=int, default=20, help='near-duplicates to show, at most'
    )
    parser.add_argument(
        '--out',
        default='work_dirs/neighbors',
        metavar='DIR',
        help='folder for index.html and embeddings.npz',
    )


def run(args: argparse.Namespace) -> Path:
    import numpy as np
    import torch
    from mmengine.dist import is_main_process

    from mmbam.utils.files import require_writable
    from mmbam.visualization.neighbors import NeighborPage

    from .images import ImagesAndNetwork

    for name in ('num_queries', 'k', 'pairs'):
        if getattr(args, name) < 1:
            raise InputError(
                f'--{name.replace("_", "-")} must be at least 1, but got '
                f'{getattr(args, name)}.'
            )
    if not -1 <= args.threshold <= 1:
        raise InputError(f'--threshold must lie in -1..1, but got {args.threshold}.')
    page, file = (Path(args.out, name) for name in ('index.html', 'embeddings.npz'))
    for path in (page, file):
        require_writable(path)
    given = ImagesAndNetwork(args)
    queries = given.queries(args.query) if args.query else None
    with np.load(given.embed(file)) as content:
        features = torch.from_numpy(content['embeddings'])
    total = NeighborPage(given.dataset, given.names, features).write(
        page,
        f'{len(features):,} images of {args.images}, embedded by {args.checkpoint}. '
        'The first image of a row is the query. The number above another image is its '
        'cosine similarity to the query.',
        queries=queries,
        num_queries=args.num_queries,
        k=args.k,
        threshold=args.threshold,
        pairs=args.pairs,
    )
    if is_main_process():
        print(f'Pairs of near-duplicates: {total:,}. Open {page}')
    return page
