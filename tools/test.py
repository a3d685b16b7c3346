"""Test a checkpoint with a config of mmbam or any other OpenMMLab project."""

from __future__ import annotations

import argparse
import os

from mmbam.engine import launch
from mmbam.utils.errors import InputError
from mmbam.utils.process_group import leave_group


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config')
    parser.add_argument('checkpoint')
    launch.add_arguments(parser)
    parser.add_argument('--out', metavar='FILE.pkl', help='save the predictions')
    args = parser.parse_args()
    os.environ.setdefault('LOCAL_RANK', str(args.local_rank))
    try:
        cfg = launch.load_config(
            args.config, args.work_dir, args.cfg_options, args.launcher
        )
        launch.set_test(cfg, args.checkpoint, args.out)
    except (FileNotFoundError, ImportError, ValueError) as error:
        parser.exit(2, f'{parser.prog}: {error}\n')
    if args.amp:
        cfg.test_cfg.fp16 = True  # mmengine's name for any mixed precision
    try:
        launch.test(launch.build_runner(cfg))
        leave_group()
    except InputError as error:
        parser.exit(1, f'{parser.prog}: {error}\n')


if __name__ == '__main__':
    main()
