"""Make a small world, pre-train a tiny network on it with BAM, show what it learned."""

from __future__ import annotations

import argparse

from mmbam.demo.run import DemoSettings, run_demo

STOPPED = 'Stopped. Run the command again to start over.'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--backbone',
        choices=('resnet', 'vit'),
        default='resnet',
        help='network to pre-train',
    )
    parser.add_argument('--out', default='work_dirs/demo', help='folder for results')
    parser.add_argument(
        '--epochs', type=int, help="number of epochs; without it, the config's"
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


def run(args: argparse.Namespace) -> dict:
    return run_demo(DemoSettings(**vars(args)))
