"""``--devices N``: a command that runs itself again in N processes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mmbam.engine import torchrun


def add_devices_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--devices`` to a command that several processes share."""
    parser.add_argument(
        '--devices',
        type=int,
        metavar='N',
        help='number of GPUs, or of CPU processes where there is no GPU, to run on; '
        'the variables NNODES, NODE_RANK, MASTER_ADDR and PORT add machines, and '
        'RESTARTS=3 starts all again, up to three times, if one dies',
    )


def needs_processes(args: argparse.Namespace) -> bool:
    """Whether the arguments ask for processes that are not there yet."""
    return getattr(args, 'devices', None) is not None and not torchrun.is_inside()


def start_processes(devices: int, words: Sequence[str]) -> None:
    """Run ``mmbam WORDS`` in several processes, each of which calls its verb.

    Args:
        devices (int): Number of processes on this machine.
        words (Sequence[str]): The whole command line, ``--devices`` included.
    """
    torchrun.start(devices, ['-m', 'mmbam', *words])
