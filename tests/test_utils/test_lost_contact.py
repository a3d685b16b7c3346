"""A rank that dies, freezes or cannot be reached ends the others with a sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from mmbam.utils.errors import InputError
from mmbam.utils.process_group import lost_contact, require_ranks, was_restarted
from tests.helpers.distributed import free_port
from tests.helpers.run import ROOT

# The second rank leaves in one way or another while the first waits for it.
RANK = """
import os, signal, sys
from datetime import timedelta
import torch
import torch.distributed as dist
from mmbam.utils.process_group import lost_contact
dist.init_process_group('gloo')
dist.barrier()  # however long the other takes to import torch
group = dist.new_group(timeout=timedelta(seconds=5))
if os.environ['RANK'] == '1':
    os.kill(os.getpid(), int(sys.argv[1]))
try:
    dist.all_reduce(torch.ones(1000), group=group)
except RuntimeError as error:
    print(lost_contact(error), flush=True)
os._exit(1)
"""


@pytest.mark.parametrize('with_signal', [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_killed_or_frozen_is_reported(with_signal):
    env = dict(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(free_port()), WORLD_SIZE='2')
    ranks = [
        subprocess.Popen(
            [sys.executable, '-c', textwrap.dedent(RANK), str(int(with_signal))],
            env={**os.environ, **env, 'RANK': str(rank), 'PYTHONPATH': str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said, _ = ranks[0].communicate(timeout=120)
    finally:
        ranks[1].kill()
        ranks[1].communicate()
    said = said.splitlines()[-1]  # torch 2.10 says that it is connected before
    assert said.startswith('Rank 0 lost contact with another rank (')
    assert said.endswith('go on with --resume.')


@pytest.mark.parametrize(
    'message, part',
    [
        (
            'Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/'
            'pair.cc:144] no error',
            'in GLOO_SOCKET_IFNAME (here: lo',
        ),
        (
            'The client socket has failed to connect to any network address of '
            '(10.77.0.1, 29511).',
            'MASTER_ADDR and PORT must name it',
        ),
        ('Socket Timeout', 'is frozen'),
    ],
)
def test_the_sentence_says_what_to_do(message, part):
    assert part in lost_contact(RuntimeError(message))


@pytest.mark.parametrize(
    'error', [RuntimeError('shapes do not fit'), ValueError('Connection refused')]
)
def test_other_errors_are_not_about_the_connection(error):
    assert lost_contact(error) is None


@pytest.mark.parametrize(
    'rank, size', [('5', '2'), ('2', '2'), ('-1', '2'), ('one', '2'), ('0', 'two')]
)
def test_an_impossible_rank_is_refused(rank, size, monkeypatch):
    monkeypatch.setenv('RANK', rank)
    monkeypatch.setenv('WORLD_SIZE', size)
    with pytest.raises(InputError, match=f'RANK={rank} and WORLD_SIZE={size}'):
        require_ranks()


def test_torchrun_tells_of_a_restart(monkeypatch):
    monkeypatch.delenv('TORCHELASTIC_RESTART_COUNT', raising=False)
    assert not was_restarted()
    monkeypatch.setenv('TORCHELASTIC_RESTART_COUNT', '2')
    assert was_restarted()
