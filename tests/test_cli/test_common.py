"""run_command on several ranks: one sentence, or the traceback of a bug."""

import subprocess
import sys

import pytest

from tests.helpers.run import ROOT

SCRIPT = """
import sys, torch
import torch.distributed as dist
from mmbam.cli.common import run_command
from mmbam.utils.errors import InputError

def main():
    if sys.argv[1] == 'all':
        raise InputError('it is wrong')
    if dist.get_rank() == 1:
        raise InputError('it is wrong') if sys.argv[1] == 'one' else ValueError('a bug')
    dist.all_reduce(torch.ones(1))

run_command(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize('ranks', ['all', 'one', 'bug'])
def test_the_first_rank_that_fails_speaks_and_all_end(tmp_path, ranks):
    script = tmp_path / 'tool.py'
    script.write_text(SCRIPT)
    torchrun = ['-m', 'torch.distributed.run', '--standalone', '--nproc_per_node=2']
    done = subprocess.run(
        [sys.executable, *torchrun, str(script), ranks],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode != 0
    # The traceback that torchrun adds is its own.
    shown = 'tool.py", line' in done.stderr
    if ranks == 'bug':
        assert shown and done.stderr.count('ValueError: a bug') == 1
    else:
        assert not shown and done.stderr.count('tool.py: it is wrong\n') == 1
