"""Arguments that training and testing share, and the config that they name."""

from __future__ import annotations

import argparse

from mmengine.config import Config

from mmbam.engine import launch

from .devices import add_devices_argument
from .network import add_options_argument


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that :func:`load_run_config` reads.

    Args:
        parser (argparse.ArgumentParser): Parser of a command.
    """
    parser.add_argument(
        '--work-dir',
        help='folder for logs and checkpoints; without it, work_dirs/NAME_OF_CONFIG',
    )
    parser.add_argument('--amp', action='store_true', help='mixed precision')
    add_options_argument(parser)
    add_devices_argument(parser)
    parser.add_argument(
        '--launcher',
        choices=list(launch.VARIABLES),
        default='none',
        help='what started the processes, if --devices did not',
    )
    # torchrun sets the variable instead; older launchers pass this.
    parser.add_argument(
        '--local_rank', '--local-rank', type=int, default=0, help=argparse.SUPPRESS
    )


def load_run_config(args: argparse.Namespace) -> Config:
    """Read the config of a run and put the command line's values into it.

    Args:
        args (argparse.Namespace): Parsed arguments. Its ``launcher`` becomes that of
            ``--devices``.
    """
    if args.devices is not None:
        args.launcher = 'pytorch'
    launch.set_rank(args.launcher, args.local_rank)
    return launch.load_config(
        args.config, args.work_dir, args.cfg_options, args.launcher
    )
