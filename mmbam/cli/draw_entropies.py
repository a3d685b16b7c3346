"""Draw the course of the entropies of A and B in one or several runs (Fig. 3)."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'work_dirs', nargs='+', help='work directories of runs, or their scalars.json'
    )
    parser.add_argument(
        '--out',
        type=Path,
        default='entropies.png',
        help='picture to write',
    )


def run(args: argparse.Namespace) -> Path:
    from mmbam.visualization.curves import draw_entropies, read_run

    runs = {work_dir: read_run(work_dir) for work_dir in args.work_dirs}
    draw_entropies(runs, args.out)
    for name, scalars in runs.items():
        a, b = (scalars[key][1][-1] for key in ('entropy_a', 'entropy_b'))
        print(f'{name}: A {a:.3f}, B {b:.3f} nats at the end')
    print(f'Wrote {args.out}')
    return args.out
