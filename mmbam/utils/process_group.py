"""Leave the processes of a group together."""

from __future__ import annotations

import time

import torch.distributed as dist


def leave_group() -> None:
    """End this process's membership in the group of processes, if there is one.

    Python's end does not do it: with torch 2.10 about half of the runs by gloo end
    aborted then, after all of their work.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    dist.barrier()
    # Leaving waits for gloo's threads with Python's lock held, which they need to let
    # go of their last tensors: give them a moment before.
    time.sleep(0.2)
    dist.destroy_process_group()
