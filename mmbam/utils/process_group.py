"""Join a group of processes, and leave or fail together."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from contextlib import suppress
from datetime import timedelta

import torch
import torch.distributed as dist
from mmengine.dist import is_distributed

from .errors import InputError

# Seconds after which gloo gives up waiting for another rank. torchrun then needs up to
# 30 more to end a process that does not react, 2 minutes in all.
GLOO_TIMEOUT = 80
_SOURCE_LINE = re.compile(r'\[[^\]]*gloo/[^\]]*\] ')
_OF_CONNECTION = re.compile(
    r'gloo/transport|connectFullMesh|makeDevice|Socket Timeout|client socket has'
    r'|NCCL.*(timeout|remote process exited)'
    r'|Connection (closed by peer|reset by peer|refused|timed out)|Broken pipe'
)


def require_ranks() -> None:
    """Refuse a rank that the number of ranks does not allow."""
    rank, size = os.environ.get('RANK', '0'), os.environ.get('WORLD_SIZE', '1')
    if not (rank.isdigit() and size.isdigit() and int(rank) < int(size)):
        raise InputError(
            'RANK must be a number from 0 to WORLD_SIZE - 1, but the environment has '
            f'RANK={rank} and WORLD_SIZE={size}.'
        )


def was_restarted() -> bool:
    """Whether torchrun started this process again after one of its ranks had died."""
    return int(os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)) > 0


def join_group() -> None:
    """Join the group of the processes that torchrun started; none if it is alone.

    Not mmengine's ``init_dist``, which selects a GPU also where there is none.
    """
    require_ranks()
    if int(os.environ.get('WORLD_SIZE', 1)) == 1:
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
        dist.init_process_group('nccl')
    else:
        dist.init_process_group('gloo', timeout=timedelta(seconds=GLOO_TIMEOUT))


def leave_group() -> None:
    """Leave the group of processes together with the other ranks, if there is one.

    Python's exit does not: with torch 2.10 about half of the runs on gloo were aborted
    then, after all of their work.
    """
    if not is_distributed():
        return
    dist.barrier()
    # Leaving waits for gloo's threads while it holds Python's lock, which they need to
    # release their last tensors: give them a moment before.
    time.sleep(0.2)
    dist.destroy_process_group()


def fails_first() -> bool:
    """Whether no other rank called this before; call it once, on failure.

    Before there is a group, or where the machine that counts cannot be reached any
    more, the first process of each machine counts as the first.
    """
    first_here = int(os.environ.get('LOCAL_RANK', 0)) == 0
    if not is_distributed():
        return first_here
    counts: list[int] = []

    def count() -> None:
        store = dist.distributed_c10d._get_default_store()
        # The rank that keeps the store may have failed already.
        with suppress(RuntimeError):
            counts.append(store.add('mmbam_failures', 1))
        counts.append(0)

    # Behind a cut link the answer would only come after many minutes.
    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    thread.join(timeout=10)
    return counts[0] == 1 if counts else first_here


def lost_contact(error: Exception) -> str | None:
    """One sentence if the error is that of a lost connection between ranks, or None."""
    text = ' '.join(str(error).split())
    if not isinstance(error, RuntimeError) or not _OF_CONNECTION.search(text):
        return None
    reason = _SOURCE_LINE.sub('', text).split('. This may indicate')[0].rstrip('. ')
    if 'connectFullMesh' in text or 'makeDevice' in text:
        names = ', '.join(name for _, name in socket.if_nameindex())
        return (
            f'The ranks cannot reach each other ({reason}): name the network interface '
            f'that leads to the other machines in GLOO_SOCKET_IFNAME (here: {names}).'
        )
    if 'client socket has' in text:
        return (
            f'The first machine does not answer at {os.environ.get("MASTER_ADDR")}:'
            f'{os.environ.get("MASTER_PORT")} ({reason}): MASTER_ADDR and PORT must '
            'name it and be the same on all machines.'
        )
    return (
        f'Rank {os.environ.get("RANK", 0)} lost contact with another rank ({reason}): '
        'that one has ended, is frozen, or cannot be reached any more. The work up to '
        'the last checkpoint is safe; go on with --resume.'
    )
