"""One run at a time in a work directory."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path
from typing import IO

from mmbam.utils.errors import InputError

LOCK = '.lock'
# Closing any handle of the file would release the lock of this process.
_held: dict[Path, IO[str]] = {}
_RANKS = ('RANK', 'SLURM_PROCID', 'OMPI_COMM_WORLD_RANK')


def lock_work_dir(work_dir: str | Path, launcher: str = 'none') -> None:
    """Keep other runs out of a work directory for as long as this process lives.

    The kernel holds the lock, so that a run that was killed leaves none. The first of
    several ranks holds it for all.

    Args:
        work_dir (str | Path): The folder, made if needed.
        launcher (str): What started the processes, see
            :func:`mmbam.engine.launch.load_config`. Defaults to 'none'.

    Raises:
        InputError: A live run uses the folder.
    """
    if launcher != 'none' and any(os.environ.get(r, '0') != '0' for r in _RANKS):
        return
    path = Path(work_dir, LOCK).resolve()
    if path in _held:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(path, 'a+')
    try:
        # Not flock, which data-loader workers would inherit and hold a while longer.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        owner = file.read().strip() or 'another process'
        file.close()
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            return  # a file system without locks
        raise InputError(
            f'{work_dir} is in use by a run that is alive ({owner}): wait for its end, '
            'stop it, or choose another folder.'
        ) from None
    file.truncate(0)
    file.write(f'process {os.getpid()} on host {socket.gethostname()}\n')
    file.flush()
    _held[path] = file
