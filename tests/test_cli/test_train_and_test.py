"""`mmbam train`, `mmbam test` and the scripts of tools/, as a user calls them."""

from __future__ import annotations

import json
import os
import pickle
import runpy
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mmbam.checkpoints import load_training_checkpoint
from mmbam.engine import torchrun
from tests.helpers.run import ROOT, run_verb

CONFIG = """
default_scope = 'mmpretrain'
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='ResNet', depth=18, stem_channels=8, base_channels=8, num_stages=2,
        strides=(1, 2), dilations=(1, 1), out_indices=(1,),
        norm_cfg=dict(type='SyncBN')),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=2, in_channels=16),
    data_preprocessor=dict(mean=[127.] * 3, std=[127.] * 3, num_classes=2),
)
train_dataloader = dict(
    batch_size=2, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(type='CustomDataset', data_prefix='{images}', pipeline=[
        dict(type='LoadImageFromFile'), dict(type='PackInputs')]))
test_dataloader = train_dataloader
test_evaluator = dict(type='Accuracy', topk=1)
test_cfg = dict()
train_cfg = dict(by_epoch=True, max_epochs=1)
optim_wrapper = dict(type='AmpOptimWrapper', optimizer=dict(type='SGD', lr=0.1))
env_cfg = dict(dist_cfg=dict(backend='nccl'))
randomness = dict(seed=0)
sync_bn = 'torch'
auto_scale_lr = dict(base_batch_size=2)
"""


@pytest.fixture(scope='module')
def config(tmp_path_factory) -> Path:
    """A small classifier with a config for GPUs, as mmpretrain's are."""
    folder = tmp_path_factory.mktemp('classifier')
    for i in range(8):
        path = folder / 'images' / f'class{i % 2}' / f'{i}.png'
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((16, 16, 3), 30 * i, np.uint8)).save(path)
    path = folder / 'small.py'
    path.write_text(CONFIG.replace('{images}', str(folder / 'images')))
    return path


def run(name: str, *args, cwd: Path, **env: str) -> subprocess.CompletedProcess:
    """Call a script by its path from another folder."""
    command = [str(ROOT / 'tools' / name), *map(str, args)]
    env = {**os.environ, 'PYTHON': sys.executable, **env}
    env.pop('OMP_NUM_THREADS', None)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def assert_ok(done: subprocess.CompletedProcess) -> None:
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow
def test_two_cpu_processes_train_and_test_a_config_for_gpus(config, tmp_path):
    done = run('dist_train.sh', config, 2, '--auto-scale-lr', cwd=tmp_path)
    assert_ok(done)
    for said in ('gloo', 'float32', 'batch norm is not', 'current batch size is 4'):
        assert said in done.stdout + done.stderr, said
    checkpoint = tmp_path / 'work_dirs' / 'small' / 'epoch_1.pth'
    state = load_training_checkpoint(checkpoint)
    assert state['message_hub']['runtime_info']['iter'] == 1, '8 images, 2 x 2 a step'
    lr = state['optimizer']['param_groups'][0]['lr']
    assert lr == pytest.approx(0.2), 'twice the batch, twice the rate'

    arguments = (config, checkpoint, 2, '--work-dir', 'test', '--out', 'test/out.pkl')
    done = run('dist_test.sh', *arguments, cwd=tmp_path)
    assert_ok(done)
    assert len(pickle.loads((tmp_path / 'test/out.pkl').read_bytes())) == 8

    _, error = run_verb('test', config, checkpoint, '--work-dir', tmp_path / 'alone')
    assert error is None
    results = [
        json.loads(next((tmp_path / name).glob('*/*.json')).read_text())
        for name in ('test', 'alone')
    ]
    assert results[0]['accuracy/top1'] == results[1]['accuracy/top1']


def test_training_resumes_where_it_stopped(config, tmp_path):
    arguments = (config, '--amp', '--work-dir', tmp_path)
    assert run_verb('train', *arguments)[1] is None
    more = ('--resume', '--cfg-options', 'train_cfg.max_epochs=2')
    assert run_verb('train', *arguments, *more)[1] is None
    state = load_training_checkpoint(tmp_path / 'epoch_2.pth')
    assert state['meta']['iter'] == 8, 'two epochs in all, not three'
    # One folder for both if they began within a second.
    logs = [log.read_text() for log in tmp_path.glob('*/*.log')]
    assert sum('resumed epoch: 1' in log for log in logs) == 1


def test_a_checkpoint_that_could_run_code_is_not_resumed(config, tmp_path):
    arguments = (config, '--work-dir', tmp_path)
    assert run_verb('train', *arguments)[1] is None
    state = load_training_checkpoint(tmp_path / 'epoch_1.pth')
    bad = tmp_path / 'bad.pth'
    torch.save(dict(state, own=Fraction(1, 2)), bad)
    sentence = run_verb('train', *arguments, '--resume', bad)[1]
    assert sentence.startswith(f'mmbam train: {str(bad)!r} holds other objects')


@pytest.mark.parametrize(
    'name, args, sentence',
    [
        ('train', ['no.py'], 'mmbam train: Config file not found: no.py'),
        (
            'train',
            ['{config}', '--resume', 'no.pth'],
            'mmbam train: Checkpoint not found: no.pth',
        ),
        ('test', ['{config}', 'no.pth'], 'mmbam test: Checkpoint not found: no.pth'),
    ],
)
def test_mistakes_end_in_one_sentence(name, args, sentence, config):
    assert run_verb(name, *[arg.format(config=config) for arg in args])[1] == sentence


@pytest.mark.parametrize('verb, args', [('train', []), ('test', ['a.pth'])])
def test_the_scripts_of_openmmlab_are_the_verbs(verb, args, monkeypatch):
    script = str(ROOT / 'tools' / f'{verb}.py')
    monkeypatch.setattr(sys, 'argv', [script, 'no.py', *args])
    with pytest.raises(SystemExit, match=f'mmbam {verb}: Config file not found: no.py'):
        runpy.run_path(script, run_name='__main__')


@pytest.mark.slow
def test_two_processes_say_one_sentence(config, tmp_path):
    """Before there is a group of processes, and after."""
    data = 'train_dataloader.dataset.data_prefix=gone'
    for args in (['--resume', 'no.pth'], ['--cfg-options', data]):
        done = run('dist_train.sh', config, 2, *args, cwd=tmp_path)
        assert done.returncode != 0
        assert done.stderr.count('mmbam train: ') == 1
        # The traceback that torchrun adds is its own.
        assert 'train.py", line' not in done.stderr


def test_a_wrong_number_of_processes_is_named(config, tmp_path):
    done = run('dist_train.sh', config, 'two', cwd=tmp_path)
    assert done.returncode == 2
    assert "argument --devices: invalid int value: 'two'" in done.stderr


@pytest.mark.parametrize(
    'name', ['dist_train.sh', 'dist_test.sh', 'test.sh', 'slurm_train.sh']
)
def test_scripts_say_how_they_are_used(name, tmp_path):
    done = run(name, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith('usage:') and 'CONFIG' in done.stderr


def fake(folder: Path, name: str) -> dict[str, str]:
    """A program that only prints its arguments, first on the path."""
    program = folder / name
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\n')
    program.chmod(0o755)
    return {'PATH': f'{folder}:{os.environ["PATH"]}'}


def test_many_nodes_are_told_to_torchrun(config, monkeypatch):
    env = dict(NNODES='2', NODE_RANK='1', MASTER_ADDR='10.0.0.1', PORT='1234')
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    told = []
    monkeypatch.setattr(torchrun.run, 'main', told.extend)
    handlers = {n: signal.getsignal(n) for n in torchrun.SIGNALS}
    monkeypatch.setattr(torchrun.api.PContext, 'close', torchrun.api.PContext.close)
    monkeypatch.setenv(torchrun.PARENT, '')
    monkeypatch.setenv('OMP_NUM_THREADS', '1')
    words = ['train', str(config), '--devices', '8', '--amp']
    try:
        assert run_verb(*words)[1] is None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    expected = '--nnodes=2 --node_rank=1 --nproc_per_node=8 --max_restarts=0'
    expected += ' --master_addr=10.0.0.1 --master_port=1234'
    assert told == [*expected.split(), '-m', 'mmbam', *words]


@pytest.mark.parametrize(
    'name, variables, expected',
    [
        ('dist_train.sh', ['{config}', 8, '--amp'], 'train {config} --devices 8 --amp'),
        (
            'dist_test.sh',
            ['{config}', 'a.pth', 2, '--amp'],
            'test {config} a.pth --devices 2 --amp',
        ),
    ],
)
def test_scripts_start_the_command(config, tmp_path, name, variables, expected):
    fake(tmp_path, 'python')
    env = dict(PYTHON=str(tmp_path / 'python'))
    args = [str(arg).format(config=config) for arg in variables]
    said = run(name, *args, cwd=tmp_path, **env).stdout.split()
    assert said == ['python', '-m', 'mmbam', *expected.format(config=config).split()]


@pytest.mark.parametrize(
    'variable', ['RESTARTS', 'NODE_RANK', 'PORT', 'MMBAM_STOP_SECONDS']
)
def test_a_variable_that_is_no_number_is_named(config, monkeypatch, variable):
    monkeypatch.setenv(variable, 'two')
    _, error = run_verb('train', config, '--devices', 2)
    assert error == f"mmbam train: {variable} must be a whole number, but got 'two'."


def test_one_process_tests_with_the_chosen_python(config, tmp_path):
    fake(tmp_path, 'python')
    env = dict(PYTHON=str(tmp_path / 'python'))
    done = run('test.sh', config, 'weights.pth', '--amp', cwd=tmp_path, **env)
    words = ['-m', 'mmbam', 'test', str(config), 'weights.pth', '--amp']
    assert done.stdout.split() == ['python', *words]


def test_slurm_gets_resources_work_dir_and_arguments(config, tmp_path):
    env = fake(tmp_path, 'srun')
    env.update(GPUS='16', GPUS_PER_NODE='4', SRUN_ARGS='--mem=8G --qos=low')
    args = ('part', 'job', config, 'results', '--resume')
    said = run('slurm_train.sh', *args, cwd=tmp_path, **env).stdout.split()
    for word in ('--partition=part', '--job-name=job', '--ntasks=16', '--gres=gpu:4'):
        assert word in said
    assert {'--ntasks-per-node=4', '--mem=8G', '--qos=low'} <= set(said)
    tail = ['--launcher', 'slurm', '--work-dir', 'results', '--resume']
    assert said[-6:] == [str(config), *tail]

    said = run('slurm_train.sh', *args[:3], '--amp', cwd=tmp_path, **env).stdout.split()
    assert said[-4:] == [str(config), '--launcher', 'slurm', '--amp']
