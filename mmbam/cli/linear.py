"""Accuracy of a linear probe on the features of a checkpoint.

The paper's probe (batch norm without affine, linear layer, SGD, cosine schedule) on
features that are computed once, so without augmentation. configs/benchmarks/linear has
the paper's whole protocol.
"""

from __future__ import annotations

import argparse

from mmbam.utils.errors import InputError

from .arguments import add_evaluation_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_evaluation_arguments(parser)
    parser.add_argument('--train', metavar='DIR', help='class folders to learn from')
    parser.add_argument('--test', metavar='DIR', help='class folders to classify')
    parser.add_argument(
        '--epochs', type=int, default=100, help='number of epochs of the probe'
    )
    parser.add_argument(
        '--base-lr',
        type=float,
        default=0.3,
        help='learning rate per 256 images of the probe',
    )


def run(args: argparse.Namespace) -> dict[str, float]:
    from mmengine.dist import is_main_process

    from mmbam.evaluation import linear_probe

    from .common import FrozenFeatures

    if args.epochs < 1:
        raise InputError(f'--epochs must be at least 1, but got {args.epochs}.')
    if not 0 < args.base_lr < float('inf'):
        raise InputError(
            f'--base-lr must be a finite number above 0, but got {args.base_lr}.'
        )
    features = FrozenFeatures(args)
    train, test = map(features.of, features.comparable(args.train, args.test))
    accuracy = linear_probe(*train, *test, epochs=args.epochs, base_lr=args.base_lr)
    if is_main_process():
        top1, top5 = (accuracy[name] for name in ('top1', 'top5'))
        print(f'Linear probe: top-1 {top1:.2f}, top-5 {top5:.2f}')
    return accuracy
