"""Draw the histogram of pairwise similarities by the kind of pair (Fig. 1).

The images are seen through the first two views of the config's training pipeline.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mmbam.utils.errors import InputError, input_errors

from .arguments import add_loader_arguments, add_network_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network_arguments(parser)
    parser.add_argument(
        '--out', type=Path, default='similarities.png', help='picture to write'
    )
    parser.add_argument(
        '--images',
        metavar='DIR',
        help="folder of class folders; without it, the config's",
    )
    parser.add_argument('--num', type=int, default=1024, help='number of images')
    parser.add_argument(
        '--tau', type=float, default=0.1, help='temperature of the soft-max'
    )
    parser.add_argument(
        '--projector',
        action='store_true',
        help='compare latents behind the projector, as the loss does',
    )
    parser.add_argument(
        '--seed', type=int, default=0, help='seed of the choice of images and views'
    )
    add_loader_arguments(parser)


def run(args: argparse.Namespace) -> Path:
    import numpy as np
    import torch

    from mmbam.evaluation import build_loader
    from mmbam.evaluation.frozen import build_frozen_neck, multi_view_dataset
    from mmbam.evaluation.loaders import build_dataset
    from mmbam.utils.files import require_writable
    from mmbam.visualization.attention_histograms import (
        draw_similarities,
        embed_pairs,
        pair_histograms,
    )

    from .common import load_network

    if args.num < 2:
        raise InputError(f'--num must be at least 2, but got {args.num}.')
    require_writable(args.out, args.config, args.checkpoint)
    cfg, backbone, preprocessor = load_network(args)
    neck = None
    if args.projector:
        neck = build_frozen_neck(cfg, args.checkpoint, args.source)
    dataset = build_dataset(multi_view_dataset(cfg, args.images))
    fraction = min(1.0, args.num / max(len(dataset), 1))
    loader = build_loader(
        dataset, args.batch_size, args.num_workers, fraction, args.seed
    )
    with input_errors((ValueError,)):
        np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    latents, labels = embed_pairs(backbone, preprocessor, loader, neck)
    histograms = pair_histograms(latents, labels, args.tau)
    what = 'latents behind the projector' if args.projector else 'embeddings'
    name = (
        f'{Path(args.checkpoint).name}: {what}, {len(labels):,} images x 2 views, '
        f'tau {args.tau:g}'
    )
    draw_similarities({name: histograms}, args.out)
    print(f'Wrote {args.out}')
    return args.out
