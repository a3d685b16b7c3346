"""Train from a config of mmbam or any other OpenMMLab project."""

from __future__ import annotations

import argparse

from mmbam.cli.common import run_command
from mmbam.engine import launch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config')
    parser.add_argument(
        '--resume',
        nargs='?',
        const='auto',
        metavar='CHECKPOINT',
        help='continue from a checkpoint; without a file, from the latest in work-dir',
    )
    parser.add_argument(
        '--auto-scale-lr',
        action='store_true',
        help='scale the learning rate with the batch size of all devices',
    )
    args, cfg = launch.parse(parser)
    if args.amp:
        launch.set_amp(cfg)
    if args.auto_scale_lr:
        launch.set_auto_scale_lr(cfg)
    if args.resume:
        launch.set_resume(cfg, args.resume)
    launch.train(launch.build_runner(cfg))


if __name__ == '__main__':
    run_command(main, join=False)
