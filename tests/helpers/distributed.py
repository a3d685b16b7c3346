"""Run a function on several gloo ranks and collect what each returns."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable

import torch
import torch.multiprocessing as mp

from tests.helpers.forked import forks, set_environment
from tests.helpers.run import run_verb


def free_port() -> int:
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def _rank_main(
    rank: int, fn: Callable, world_size: int, port: int, args, queue, environment, join
):
    set_environment(environment)
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world_size),
        MASTER_ADDR='127.0.0.1',
        MASTER_PORT=str(port),
    )
    torch.set_num_threads(1)
    if join:
        # Ranks that wait for each other in vain end with an error.
        torch.distributed.init_process_group('gloo', timeout=timedelta(minutes=5))
    queue.put((rank, fn(*args)))
    if join:
        torch.distributed.barrier()
    # Leaving the group the regular way can hang in torch 2.1: it waits for threads of
    # gloo with Python's lock held, which they need to let go of their last tensors.
    os._exit(0)


def run_ranks(
    fn: Callable, world_size: int, *args: Any, join: bool = True
) -> list[Any]:
    """Call ``fn(*args)`` on every rank of a gloo group.

    Args:
        fn (Callable): A module-level function. What it returns must pickle: return
            numpy arrays or numbers, not tensors.
        world_size (int): Number of processes.
        *args: Handed to ``fn``.
        join (bool): Whether the ranks are a group already, or ``fn`` makes them one.
            Defaults to True.

    Returns:
        list: The results in the order of the ranks.
    """
    queue = forks().SimpleQueue()
    processes = mp.start_processes(
        _rank_main,
        (fn, world_size, free_port(), args, queue, dict(os.environ), join),
        nprocs=world_size,
        join=False,
        start_method='forkserver',
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


def run_verb_on_ranks(ranks: int, folder: Path, *words: Any) -> str:
    """Run ``mmbam WORDS`` in a folder on several ranks; what they printed."""
    words = tuple(map(str, words))
    return ''.join(run_ranks(_printed, ranks, folder, words, join=False))


def _printed(folder: Path, words: Sequence[str]) -> str:
    os.chdir(folder)
    printed, error = run_verb(*words)
    assert error is None, error
    return printed
