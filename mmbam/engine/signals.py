"""Signals that ask a run to stop, and what a run does about them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Ctrl-C, the end of a terminal, and what schedulers send before a time limit.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
# Command of the process that takes in those who lost their parent.
_FIRST = Path('/proc/1/cmdline')

_received = 0


class Stopped(SystemExit):
    """Ends a run that was asked to stop, with the exit code 128 + signal."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)


def received() -> int:
    """Number of the first signal that asked this process to stop, or 0."""
    return _received


@contextmanager
def stop_signals() -> Iterator[None]:
    """Note the signals that ask to stop, instead of ending at once.

    :class:`mmbam.CheckpointHook` looks for them after every iteration. A second Ctrl-C
    ends the process at once. Under torchrun it ends torchrun, and with it this process:
    here, both the terminal and torchrun send the first one.
    """
    global _received
    _received = 0
    before = {number: signal.signal(number, _note) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _received = 0


def _note(number: int, frame: object) -> None:
    global _received
    again = _received == number == signal.SIGINT
    if again and 'TORCHELASTIC_RUN_ID' not in os.environ:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    _received = _received or number


def end_with_parent(parent: int | None = None) -> None:
    """End this process when its parent ends (on Linux), or has ended before.

    Without it, the ranks of torchrun or a run of a comparison would go on alone.

    Args:
        parent (int, optional): Process ID of the parent. Defaults to None: that of
            mmbam's torchrun, if it started this process.
    """
    if not sys.platform.startswith('linux'):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), 'prctl(PR_SET_PDEATHSIG)')
    # Ours says who it is; otherwise init takes in who lost its parent. In a container
    # torchrun itself may be the first process.
    known = parent or os.environ.get('MMBAM_TORCHRUN_PID')
    if known is None:
        lost = os.getppid() == 1 and not _is_torchrun(_FIRST)
    else:
        lost = os.getppid() != int(known)
    if lost:
        name = 'mmbam compare' if parent else 'torchrun'
        sys.exit(f'{name}, which started this process, has ended.')


def _is_torchrun(command: Path) -> bool:
    try:
        return b'torch' in command.read_bytes()
    except OSError:  # a system that hides the processes of others
        return False
