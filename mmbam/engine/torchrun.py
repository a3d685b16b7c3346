"""torchrun for processes that save their work when they are asked to stop.

Signals go to all ranks, also SIGUSR1, which plain torchrun does not pass on. Ranks get
MMBAM_STOP_SECONDS [600] to end their iteration and to save; plain torchrun kills them
after 30 seconds. The exit code is 128 + signal. A second Ctrl-C ends all at once.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from collections.abc import Sequence

from torch.distributed import run
from torch.distributed.elastic.multiprocessing import api
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from mmbam.utils.errors import InputError

from .signals import SIGNALS

PARENT = 'MMBAM_TORCHRUN_PID'

_received: list[int] = []


def is_inside() -> bool:
    """Whether :func:`start` started this process."""
    return os.environ.get(PARENT) == str(os.getppid())


def start(processes: int, command: Sequence[str]) -> None:
    """Run a command in several processes that form a group, and wait for them.

    The command is a script or ``-m`` and a module, and arguments. The variables NNODES,
    NODE_RANK, MASTER_ADDR and PORT add other machines. RESTARTS is how often all
    processes are started again if one dies.
    """
    if processes < 1:
        raise InputError(f'--devices must be at least 1, but got {processes}.')
    seconds = _number('MMBAM_STOP_SECONDS', 600)
    nodes = os.environ.get('NNODES') or '1'
    options = dict(
        nnodes=nodes,
        node_rank=_number('NODE_RANK', 0),
        nproc_per_node=processes,
        max_restarts=_number('RESTARTS', 0),
        master_addr=os.environ.get('MASTER_ADDR') or '127.0.0.1',
        # Two runs on a machine must not collide.
        master_port=_number('PORT', _free_port() if nodes == '1' else 29500),
    )
    if 'OMP_NUM_THREADS' not in os.environ and shutil.which('nvidia-smi') is None:
        # With GPUs torchrun's one thread per process will do; here they share the
        # cores.
        cores = len(os.sched_getaffinity(0))
        os.environ['OMP_NUM_THREADS'] = str(max(1, cores // processes))
    plain_close = api.PContext.close

    def close(self, death_sig=None, timeout=30):
        """Give ranks more time after a signal than after the failure of a rank."""
        plain_close(self, death_sig, seconds if _received else timeout)

    # By this name torchrun installs its handler; it knows nothing of SIGUSR1.
    api._terminate_process_handler = _note  # type: ignore[assignment]
    api.PContext.close = close  # type: ignore[method-assign]
    for number in SIGNALS:
        signal.signal(number, _note)
    os.environ[PARENT] = str(os.getpid())
    try:
        run.main([*(f'--{k}={v}' for k, v in options.items()), *command])
    except api.SignalException as stop:
        sys.exit(128 + stop.sigval)
    except ChildFailedError as failure:
        # A signal went to one rank, and all have saved and ended.
        code = failure.get_first_failure()[1].exitcode
        if code in [128 + number for number in SIGNALS]:
            sys.exit(code)
        raise


def _note(number: int, frame: object) -> None:
    """End as torchrun does after a signal; at once after a second Ctrl-C."""
    _received.append(number)
    if len(_received) == 1:
        raise api.SignalException('', signal.Signals(number))
    if _received[0] == number == signal.SIGINT:
        os._exit(128 + number)  # ranks end with their parent


def _number(variable: str, default: int) -> int:
    """A whole number from the environment."""
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal():
        raise InputError(f'{variable} must be a whole number, but got {text!r}.')
    return int(text)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]
