"""Accuracy of weighted k nearest neighbors on the features of a checkpoint."""

from __future__ import annotations

import argparse

from .arguments import add_evaluation_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_evaluation_arguments(parser)
    parser.add_argument('--train', metavar='DIR', help='class folders to search')
    parser.add_argument('--test', metavar='DIR', help='class folders to classify')
    parser.add_argument(
        '--k',
        type=int,
        nargs='+',
        default=[20],
        help='numbers of neighbors that vote',
    )
    parser.add_argument(
        '--temperature',
        type=float,
        default=0.07,
        help='temperature of the votes',
    )
    parser.add_argument(
        '--fraction',
        type=float,
        default=1.0,
        help='share of the training set to search',
    )


def run(args: argparse.Namespace) -> dict[int, dict[str, float]]:
    from mmengine.dist import is_main_process

    from mmbam.evaluation import knn_accuracy
    from mmbam.evaluation.knn import check_votes

    from .common import FrozenFeatures

    for k in args.k:
        check_votes(k, args.temperature)
    features = FrozenFeatures(args)
    datasets = features.comparable(args.train, args.test)
    train = features.of(datasets[0], args.fraction, gather=False)
    test = features.of(datasets[1])
    results = {}
    for k in args.k:
        results[k] = knn_accuracy(
            *train, *test, k=k, temperature=args.temperature, sharded=True
        )
        if is_main_process():
            top1, top5 = (results[k][name] for name in ('top1', 'top5'))
            print(f'{k}-NN: top-1 {top1:.2f}, top-5 {top5:.2f}')
    return results
