"""torchrun for the scripts of this folder, which save their work when asked to stop.

Signals go to all ranks, also SIGUSR1, which plain torchrun does not pass on. Ranks get
MMBAM_STOP_SECONDS [600] to end their iteration and to save; plain torchrun kills them
after 30 seconds. The exit code is 128 + signal. A second Ctrl-C ends all at once.
"""

from __future__ import annotations

import os
import signal
import sys

from torch.distributed import run
from torch.distributed.elastic.multiprocessing import api
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
SECONDS = int(os.environ.get('MMBAM_STOP_SECONDS', 600))

received: list[int] = []


def note(number: int, frame: object) -> None:
    """End as torchrun does after a signal; at once after a second Ctrl-C."""
    received.append(number)
    if len(received) == 1:
        raise api.SignalException('', signal.Signals(number))
    if received[0] == number == signal.SIGINT:
        os._exit(128 + number)  # ranks end with their parent


def close(self, death_sig=None, timeout=30, plain=api.PContext.close) -> None:
    """Give ranks more time after a signal than after the failure of a rank."""
    plain(self, death_sig, SECONDS if received else timeout)


def main() -> None:
    # By this name torchrun installs its handler; it knows nothing of SIGUSR1.
    api._terminate_process_handler = note
    api.PContext.close = close
    for number in SIGNALS:
        signal.signal(number, note)
    os.environ['MMBAM_TORCHRUN_PID'] = str(os.getpid())
    try:
        run.main()
    except api.SignalException as stop:
        sys.exit(128 + stop.sigval)
    except ChildFailedError as failure:
        # A signal went to one rank, and all have saved and ended.
        code = failure.get_first_failure()[1].exitcode
        if code in [128 + number for number in SIGNALS]:
            sys.exit(code)
        raise


if __name__ == '__main__':
    main()
