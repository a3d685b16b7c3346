"""Make a small world, pre-train a tiny network on it with BAM, show what it learned."""

from __future__ import annotations

import argparse
import sys
import warnings

# mmpretrain warns about operators that pre-training does not use.
warnings.filterwarnings('ignore', message='Fail to import')

from mmbam.cli.common import run_command  # noqa: E402
from mmbam.demo.run import DemoSettings, run_demo  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        '--backbone',
        choices=('resnet', 'vit'),
        default='resnet',
        help='network to pre-train',
    )
    parser.add_argument('--out', default='work_dirs/demo', help='folder for results')
    parser.add_argument(
        '--epochs', type=int, help="number of epochs; None takes the config's"
    )
    parser.add_argument('--seed', type=int, default=0, help='seed of world and run')
    for what, counts in (('patches', (4000, 800)), ('scenes', (200, 50))):
        parser.add_argument(
            f'--{what}',
            type=int,
            nargs=2,
            default=counts,
            metavar=('TRAIN', 'TEST'),
            help=f'number of {what} in the world',
        )
    args = parser.parse_args()
    if args.epochs is not None and args.epochs < 2:
        parser.error(f'--epochs must be at least 2, got {args.epochs}')
    run_demo(DemoSettings(**vars(args)))


if __name__ == '__main__':
    try:
        run_command(main)
    except KeyboardInterrupt:
        sys.exit('\nStopped. Run the command again to start over.')
