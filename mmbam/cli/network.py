"""Arguments that name a network, and the network that they name."""

from __future__ import annotations

import argparse

from mmengine.config import Config
from torch import nn

from mmbam.checkpoints.selection import SOURCES
from mmbam.evaluation.frozen import build_frozen
from mmbam.utils.config import Options, read_config


def add_network_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that :func:`load_network` reads.

    Args:
        parser (argparse.ArgumentParser): Parser of a command.
    """
    parser.add_argument(
        'config',
        help='config whose model.backbone is used, mmbam::NAME for one of ours',
    )
    parser.add_argument(
        'checkpoint', help='file or folder with weights, see docs/checkpoints.md'
    )
    add_source_arguments(parser)
    add_options_argument(parser)


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose a network in a checkpoint."""
    parser.add_argument(
        '--source',
        choices=SOURCES,
        default='auto',
        help='which network of the checkpoint to take; auto prefers the teacher',
    )
    parser.add_argument(
        '--prefix',
        help="what the names of the network's weights begin with in the file",
    )


def add_options_argument(
    parser: argparse.ArgumentParser, config: str = 'the config'
) -> None:
    """Add ``--cfg-options``.

    Args:
        parser (argparse.ArgumentParser): Parser of a command.
        config (str): What they change. Defaults to ``'the config'``.
    """
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=Options,
        default={},
        metavar='KEY=VALUE',
        help=f'settings of {config} to change: a.b=1 c=[1,2]',
    )


def load_network(args: argparse.Namespace) -> tuple[Config, nn.Module, nn.Module]:
    """Load the network that the arguments of a command name.

    Args:
        args (argparse.Namespace): Parsed arguments.

    Returns:
        tuple[Config, nn.Module, nn.Module]: The config, the frozen backbone, and the
        preprocessor of its images.
    """
    cfg = read_config(args.config, args.cfg_options)
    return (cfg, *build_frozen(cfg, args.checkpoint, args.source, args.prefix))
