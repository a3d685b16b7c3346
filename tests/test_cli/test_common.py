"""run_command on several ranks: one sentence, or the traceback of a bug."""

import os

import pytest
import torch
import torch.distributed as dist

from mmbam.cli.common import run_command
from mmbam.utils.errors import InputError
from tests.helpers.distributed import free_port
from tests.helpers.forked import forks


def rank_of_a_command(rank, case, port, log):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE='2')
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)

    def main():
        if case == 'all':
            raise InputError('it is wrong')
        if dist.get_rank() == 1:
            raise InputError('it is wrong') if case == 'one' else ValueError('a bug')
        dist.all_reduce(torch.ones(1))

    run_command(main, name='tool')


@pytest.mark.parametrize('case', ['all', 'one', 'bug'])
def test_the_first_rank_that_fails_speaks_and_all_end(tmp_path, case):
    log = tmp_path / 'log.txt'
    log.touch()
    port = free_port()
    ranks = [
        forks().Process(target=rank_of_a_command, args=(rank, case, port, str(log)))
        for rank in range(2)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(timeout=120)
    assert [process.exitcode for process in ranks] == [1, 1]
    said = log.read_text()
    if case == 'bug':
        assert said.count('Traceback') == said.count('ValueError: a bug') == 1
    else:
        assert 'Traceback' not in said and said.count('tool: it is wrong\n') == 1
