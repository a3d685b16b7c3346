"""Join a group of processes, and leave or fail together."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from mmengine.dist import is_distributed


def join_group() -> None:
    """Join the group of the processes that torchrun started; none if it is alone.

    Not mmengine's ``init_dist``, which selects a GPU also where there is none.
    """
    if int(os.environ.get('WORLD_SIZE', 1)) == 1:
        return
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
    dist.init_process_group('nccl' if cuda else 'gloo')


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

    Before there is a group, the first process of each machine counts as the first.
    """
    if not is_distributed():
        return int(os.environ.get('LOCAL_RANK', 0)) == 0
    try:
        return dist.distributed_c10d._get_default_store().add('mmbam_failures', 1) == 1
    except RuntimeError:  # the rank that keeps the store has failed already
        return False
