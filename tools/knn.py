"""Accuracy of weighted k nearest neighbours on the features of a checkpoint."""

from __future__ import annotations

from mmengine.dist import is_main_process

from mmbam.cli.common import FrozenFeatures, evaluation_parser, run_command
from mmbam.evaluation import knn_accuracy


def main() -> None:
    parser = evaluation_parser(__doc__)
    parser.add_argument('--train', metavar='DIR', help='class folders to search')
    parser.add_argument('--test', metavar='DIR', help='class folders to classify')
    parser.add_argument(
        '--k',
        type=int,
        nargs='+',
        default=[20],
        help='numbers of neighbours that vote (default: 20)',
    )
    parser.add_argument(
        '--temperature',
        type=float,
        default=0.07,
        help='temperature of the votes (default: 0.07)',
    )
    parser.add_argument(
        '--fraction',
        type=float,
        default=1.0,
        help='share of the training set to search (default: 1.0)',
    )
    args = parser.parse_args()
    features = FrozenFeatures(args)
    train = features.of_split('train', args.train, args.fraction, gather=False)
    test = features.of_split('test', args.test)
    for k in args.k:
        accuracy = knn_accuracy(
            *train, *test, k=k, temperature=args.temperature, sharded=True
        )
        if is_main_process():
            print(f'{k}-NN: top-1 {accuracy["top1"]:.2f}, top-5 {accuracy["top5"]:.2f}')


if __name__ == '__main__':
    run_command(main)
