"""Processes of a group end well."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from mmbam.utils.process_group import leave_group


def join_and_leave(rank: int, meeting_point: str) -> None:
    dist.init_process_group('gloo', f'file://{meeting_point}', rank=rank, world_size=2)
    ones = torch.ones(1)
    dist.all_reduce(ones)
    assert ones == 2
    leave_group()
    assert not dist.is_initialized()


def test_ranks_leave_their_group_and_end_well(tmp_path):
    # Raises if one of them fails or is aborted.
    mp.spawn(join_and_leave, (str(tmp_path / 'meeting_point'),), nprocs=2)


def test_without_a_group_there_is_nothing_to_leave():
    leave_group()
    assert not dist.is_initialized()
