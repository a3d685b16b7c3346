"""Train from a config of mmbam or any other OpenMMLab project."""

from __future__ import annotations

import argparse
import os

from mmbam.engine import launch
from mmbam.engine.hooks.monitor_hook import TrainingCollapsed
from mmbam.utils.errors import InputError
from mmbam.utils.process_group import leave_group


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config')
    launch.add_arguments(parser)
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
    args = parser.parse_args()
    os.environ.setdefault('LOCAL_RANK', str(args.local_rank))
    try:
        cfg = launch.load_config(
            args.config, args.work_dir, args.cfg_options, args.launcher
        )
        if args.amp:
            launch.set_amp(cfg)
        if args.auto_scale_lr:
            launch.set_auto_scale_lr(cfg)
        if args.resume:
            launch.set_resume(cfg, args.resume)
    except (FileNotFoundError, ImportError, ValueError) as error:
        parser.exit(2, f'{parser.prog}: {error}\n')
    try:
        launch.train(launch.build_runner(cfg))
        leave_group()
    except (InputError, TrainingCollapsed) as error:
        parser.exit(1, f'{parser.prog}: {error}\n')


if __name__ == '__main__':
    main()
