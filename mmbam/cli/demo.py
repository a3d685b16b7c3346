"""Make a small world, pre-train a tiny network on it with BAM, show what it learned."""

from __future__ import annotations

import argparse

from .world import add_counts

STOPPED = 'Stopped. Run the command again to start over.'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_demo_arguments(parser)
    parser.add_argument(
        '--epochs', type=int, help="number of epochs; without it, the config's"
    )


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that the demo shares with the chain, which goes on from it."""
    parser.add_argument(
        '--backbone',
        choices=('resnet', 'vit'),
        default='resnet',
        help='network to pre-train',
    )
    parser.add_argument('--out', default='work_dirs/demo', help='folder for results')
    parser.add_argument('--seed', type=int, default=0, help='seed of world and run')
    add_counts(parser, 'patches', 'scenes')


def run(args: argparse.Namespace) -> dict:
    from mmbam.demo.run import DemoSettings, run_demo

    return run_demo(DemoSettings(**vars(args)))
