"""Train from a config of mmbam or any other OpenMMLab project."""

from __future__ import annotations

import argparse
from pathlib import Path

from .arguments import add_run_arguments

JOIN = False  # mmengine's runner does


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('config', help='config file, or mmbam::NAME for one of ours')
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
    add_run_arguments(parser)


def run(args: argparse.Namespace) -> Path:
    from mmbam.engine import launch
    from mmbam.engine.config_check import check_config
    from mmbam.engine.resuming import set_reliable
    from mmbam.engine.schedules import rescale_schedules
    from mmbam.engine.work_dir import lock_work_dir
    from mmbam.utils.process_group import was_restarted

    from .common import load_run_config

    cfg = load_run_config(args)
    rescaled = rescale_schedules(cfg, args.config, args.cfg_options)
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
    runner = launch.build_runner(cfg)
    if rescaled:
        runner.logger.info(rescaled)
    launch.train(runner)
    return Path(cfg.work_dir)
