"""Runs of `mmbam train` that are asked to stop, that are killed, or that meet."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from mmbam.checkpoints import load_training_checkpoint
from tests.helpers.run import ROOT, run_verb
from tests.test_cli.test_train_and_test import CONFIG, run


@pytest.fixture
def config(tmp_path):
    """A run of many short epochs."""
    for i in range(8):
        path = tmp_path / 'images' / f'class{i % 2}' / f'{i}.png'
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((16, 16, 3), 30 * i, np.uint8)).save(path)
    path = tmp_path / 'small.py'
    text = CONFIG.replace('{images}', str(tmp_path / 'images'))
    path.write_text(
        text.replace('max_epochs=1', 'max_epochs=100000')
        + 'default_hooks = dict(logger=dict(type="LoggerHook", interval=2),'
        ' checkpoint=dict(type="CheckpointHook", interval=1000))\n'
    )
    return path


def start(config, *args):
    log = open(config.with_suffix('.txt'), 'a')
    return subprocess.Popen(
        [str(ROOT / 'tools' / 'dist_train.sh'), str(config), '2', *args],
        cwd=config.parent,
        env={**os.environ, 'PYTHON': sys.executable, 'OMP_NUM_THREADS': '1'},
        stdout=log,
        stderr=log,
    )


def wait_for(condition, seconds=400):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f'not within {seconds} s')


def ranks_of(parent):
    """Children of a process."""
    text = subprocess.run(
        ['ps', '-o', 'pid=', '--ppid', str(parent.pid)], capture_output=True, text=True
    ).stdout
    return [int(word) for word in text.split()]


def alive(pid):
    try:
        return open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


@pytest.mark.slow
def test_two_ranks_save_once_go_on_and_end_with_torchrun(config):
    text = config.with_suffix('.txt')
    work_dir = config.parent / 'work_dirs' / 'small'
    process = start(config)
    try:
        wait_for(lambda: 'Epoch(train)' in text.read_text())
        # SIGUSR1 is the one that plain torchrun does not pass on.
        process.send_signal(signal.SIGUSR1)
        assert process.wait(120) == 128 + signal.SIGUSR1, text.read_text()[-3000:]
        said = re.findall(r'Stopped by SIGUSR1 after iteration (\d+)', text.read_text())
        assert len(said) == 1
        [saved] = work_dir.glob('*.pth')
        assert saved.name == f'autosave_iter_{said[0]}.pth'
        assert load_training_checkpoint(saved)['meta']['iter'] == int(said[0])
        assert 'Traceback' not in text.read_text()

        text.write_text('')
        process = start(config, '--resume')
        wait_for(lambda: 'Epoch(train)' in text.read_text())
        assert f'Resuming from {saved}' in text.read_text()
        sentence = run_verb('train', config, '--work-dir', work_dir)[1]
        ranks = ranks_of(process)
        assert len(ranks) == 2
        assert re.search(
            rf'in use by a run .*process ({ranks[0]}|{ranks[1]}) on host', sentence
        )
        process.kill()
        wait_for(lambda: not any(map(alive, ranks)), seconds=10)
    finally:
        process.kill()


def test_slurm_queues_a_run_that_met_its_time_limit_again(config, tmp_path):
    program = tmp_path / 'srun'
    program.write_text(
        '#!/bin/sh\necho srun "$@"\n'
        f'if [ -e {tmp_path}/second ]; then exit 3; fi; touch {tmp_path}/second\n'
        'exit 138\n'
    )
    requeue = tmp_path / 'scontrol'
    requeue.write_text('#!/bin/sh\necho scontrol "$@"\n')
    for path in (program, requeue):
        path.chmod(0o755)
    env = dict(PATH=f'{tmp_path}:{os.environ["PATH"]}', STOP_SECONDS='77')
    args = ('part', 'job', config, 'results', '--amp')
    done = run('slurm_train.sh', *args, cwd=tmp_path, **env)
    first, second = done.stdout.splitlines()
    assert '--signal=USR1@77' in first
    assert first.endswith('--work-dir results --amp') and second == first + ' --resume'
    assert done.returncode == 3, 'that of the last run'

    # In a batch job the scheduler starts this script again.
    (tmp_path / 'second').unlink()
    done = run('slurm_train.sh', *args, cwd=tmp_path, SLURM_JOB_ID='5', **env)
    assert done.stdout.splitlines() == [first, 'scontrol requeue 5']
    again = dict(env, SLURM_JOB_ID='5', SLURM_RESTART_COUNT='1')
    done = run('slurm_train.sh', *args, cwd=tmp_path, **again)
    assert done.stdout.splitlines() == [second] and done.returncode == 3
