"""Processes of a group end well."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from mmbam.utils.process_group import fails_first, leave_group
from tests.helpers.distributed import run_ranks


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


def test_one_of_all_ranks_fails_first():
    assert sorted(run_ranks(fails_first, 2)) == [False, True]


def test_before_there_is_a_group_the_first_process_of_a_machine_counts(monkeypatch):
    monkeypatch.delenv('LOCAL_RANK', raising=False)
    assert fails_first()
    monkeypatch.setenv('LOCAL_RANK', '1')
    assert not fails_first()
