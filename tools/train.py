"""Train from a config of mmbam or any other OpenMMLab project."""

from __future__ import annotations

import argparse

from mmbam.cli.common import run_command
from mmbam.engine import launch
from mmbam.engine.config_check import check_config
from mmbam.engine.resuming import set_reliable
from mmbam.engine.work_dir import lock_work_dir
from mmbam.utils.process_group import was_restarted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config')
    parser.add_argument(
        '--resume',
        nargs='?',
        const='auto',
        metavar='CHECKPOINT',
        help='continue from a checkpoint; without a file, from the newest intact one '
        'in work-dir',
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
    if was_restarted():  # by torchrun, with the same command line
        launch.set_resume(cfg, 'auto')
    elif args.resume:
        launch.set_resume(cfg, args.resume)
    check_config(cfg)
    set_reliable(cfg)
    lock_work_dir(cfg.work_dir, args.launcher)
    launch.train(launch.build_runner(cfg))


if __name__ == '__main__':
    run_command(main, join=False)
