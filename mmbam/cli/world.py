"""Make the small world that demo, tests and tiny configs run on."""

from __future__ import annotations

import argparse

COUNTS = dict(patches=(4000, 800), scenes=(200, 50), videos=(2, 4))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('root', nargs='?', default='data/world', help='folder to make')
    parser.add_argument('--seed', type=int, default=0, help='seed of all images')
    parser.add_argument(
        '--num-classes', type=int, default=16, help='number of classes, from 2 to 18'
    )
    parser.add_argument(
        '--patch-size', type=int, default=32, help='side of a patch, in pixels'
    )
    parser.add_argument(
        '--scene-size', type=int, default=128, help='side of a scene, in pixels'
    )
    parser.add_argument(
        '--objects', type=int, default=4, help='largest number of objects in a scene'
    )
    parser.add_argument(
        '--background-blur',
        type=float,
        default=0.0,
        metavar='SIGMA',
        help='blur of the backgrounds of scenes, in pixels',
    )
    parser.add_argument(
        '--frames', type=int, default=16, help='number of frames per video'
    )
    add_counts(parser, *COUNTS)


def add_counts(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add the arguments that say how many things a world has."""
    for name in names:
        parser.add_argument(
            f'--{name}',
            type=int,
            nargs=2,
            default=COUNTS[name],
            metavar=('TRAIN', 'TEST'),
            help=f'number of {name} in the world',
        )


def run(args: argparse.Namespace) -> dict[str, str]:
    from mmbam.demo.world import make_world

    roots = make_world(**vars(args))
    for layout, root in roots.items():
        print(f'{layout:9s} {root}')
    return roots
