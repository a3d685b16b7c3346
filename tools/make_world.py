"""Make the small world that demo, tests and tiny configs run on."""

from __future__ import annotations

import argparse
import sys

from mmbam.demo.world import make_world


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('root', nargs='?', default='data/world', help='folder to make')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--num-classes', type=int, default=16, help='2 to 18')
    parser.add_argument('--patch-size', type=int, default=32, help='side in pixels')
    parser.add_argument('--scene-size', type=int, default=128, help='side in pixels')
    parser.add_argument('--objects', type=int, default=4, help='most of a scene')
    parser.add_argument(
        '--background-blur',
        type=float,
        default=0.0,
        metavar='SIGMA',
        help='by which the backgrounds of scenes are out of focus, in pixels',
    )
    parser.add_argument('--frames', type=int, default=16, help='frames of a video')
    for what, counts in (
        ('patches', (4000, 800)),
        ('scenes', (200, 50)),
        ('videos', (2, 4)),
    ):
        parser.add_argument(
            f'--{what}',
            type=int,
            nargs=2,
            default=counts,
            metavar=('TRAIN', 'TEST'),
            help=f'number of {what}',
        )
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    try:
        roots = make_world(**vars(args))
    except (ValueError, OSError) as error:
        sys.exit(f'make_world: {error}')
    for layout, root in roots.items():
        print(f'{layout:9s} {root}')


if __name__ == '__main__':
    main()
