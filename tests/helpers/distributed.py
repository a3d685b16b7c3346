"""Run a function on several gloo ranks and collect what each returns."""

from __future__ import annotations

import os
import socket
from typing import Any, Callable

import torch
import torch.multiprocessing as mp


def free_port() -> int:
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def _rank_main(rank: int, fn: Callable, world_size: int, port: int, args, queue):
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world_size),
        MASTER_ADDR='127.0.0.1',
        MASTER_PORT=str(port),
    )
    torch.set_num_threads(1)
    torch.distributed.init_process_group('gloo')
    queue.put((rank, fn(*args)))
    torch.distributed.barrier()
    # Leaving the group the regular way can hang in torch 2.1: it waits for threads of
    # gloo with Python's lock held, which they need to let go of their last tensors.
    os._exit(0)


def run_ranks(fn: Callable, world_size: int, *args: Any) -> list[Any]:
    """Call ``fn(*args)`` on every rank of a gloo group.

    Args:
        fn (Callable): A module-level function. What it returns must pickle: return
            numpy arrays or numbers, not tensors.
        world_size (int): Number of processes.
        *args: Handed to ``fn``.

    Returns:
        list: The results in the order of the ranks.
    """
    context = mp.get_context('spawn')
    queue = context.SimpleQueue()
    processes = mp.spawn(
        _rank_main,
        (fn, world_size, free_port(), args, queue),
        nprocs=world_size,
        join=False,
    )
    # Read before joining: a rank blocks on a full pipe until somebody does.
    results: dict[int, Any] = {}
    while len(results) < world_size:
        if not queue.empty():
            rank, value = queue.get()
            results[rank] = value
        elif processes.join(timeout=0.05):  # raises what a failed rank raised
            break
    while not queue.empty():
        rank, value = queue.get()
        results[rank] = value
    while not processes.join(timeout=1):
        pass
    return [results[rank] for rank in range(world_size)]
