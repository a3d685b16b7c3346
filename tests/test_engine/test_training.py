"""Whole runs of the tiny config: stopped and resumed, and on two processes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mmbam.checkpoints import load_training_checkpoint
from mmbam.demo.world import make_world
from mmbam.engine.launch import build_runner, load_config, set_resume

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / 'configs/tiny/bam_vit_32px.py'


@pytest.fixture(scope='module')
def world(tmp_path_factory) -> str:
    root = tmp_path_factory.mktemp('world')
    sizes = dict(patches=(96, 32), scenes=(0, 0), videos=(0, 0))
    return make_world(root, progress=False, **sizes)['imagenet']


def options(world: str, epochs: int) -> dict:
    return {
        'train_dataloader.dataset.data_root': world,
        'train_dataloader.batch_size': 24,
        'train_cfg.max_epochs': epochs,
        'custom_hooks.1.train_dataset.data_root': world,
        'custom_hooks.1.test_dataset.data_root': world,
        'log_level': 'WARNING',
    }


def train(world: str, work_dir: Path, epochs: int, resume: bool = False):
    cfg = load_config(str(CONFIG), str(work_dir), options(world, 3))
    # The schedules are those of the whole run, which is what an interrupted run has.
    cfg.default_hooks.checkpoint.interval = 1
    if resume:
        set_resume(cfg, 'auto')
    runner = build_runner(cfg)
    if epochs < 3:
        stop_after(runner, epochs)
    runner.train()
    return runner


def stop_after(runner, epochs: int) -> None:
    """End training as an interruption would, with nothing but the checkpoints left."""
    from mmengine.hooks import Hook

    class Stop(Hook):
        def after_train_epoch(self, runner):
            if runner.epoch + 1 == epochs:
                runner.train_loop.stop_training = True

    runner.register_hook(Stop(), priority='LOWEST')


def state(work_dir: Path) -> dict[str, torch.Tensor]:
    """All tensors of the last checkpoint: student, teacher, optimiser."""
    checkpoint = load_training_checkpoint(work_dir / 'epoch_3.pth')
    tensors = dict(checkpoint['state_dict'])
    for index, values in checkpoint['optimizer']['state'].items():
        for name, value in values.items():
            tensors[f'optimizer.{index}.{name}'] = torch.as_tensor(value)
    for index, group in enumerate(checkpoint['optimizer']['param_groups']):
        for name in ('lr', 'weight_decay'):
            tensors[f'group.{index}.{name}'] = torch.tensor(group[name])
    return tensors


def test_a_run_stopped_and_resumed_equals_one_that_never_stopped(world, tmp_path):
    train(world, tmp_path / 'whole', epochs=3)
    expected = state(tmp_path / 'whole')
    assert any(name.startswith('teacher.') for name in expected)
    for stop in (1, 2):
        train(world, tmp_path / f'stopped{stop}', epochs=stop)
        assert not (tmp_path / f'stopped{stop}/epoch_3.pth').exists()
        train(world, tmp_path / f'stopped{stop}', epochs=3, resume=True)
        got = state(tmp_path / f'stopped{stop}')
        assert got.keys() == expected.keys()
        different = [k for k in expected if not torch.equal(got[k], expected[k])]
        assert not different


@pytest.mark.slow
def test_dist_train_runs_on_two_processes(world, tmp_path):
    arguments = [f'{key}={value}' for key, value in options(world, 1).items()]
    done = subprocess.run(
        ['tools/dist_train.sh', CONFIG, '2', '--work-dir', tmp_path]
        + ['--cfg-options', *arguments],
        cwd=ROOT,
        env={**os.environ, 'PYTHON': sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (log,) = tmp_path.glob('*/vis_data/scalars.json')
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert any('knn/top1' in entry for entry in entries)
    steps = [entry for entry in entries if 'entropy_b' in entry]
    assert steps and all({'loss', 'entropy_a'} <= set(step) for step in steps)
    assert all(0 < step['entropy_b'] < math.log(96) for step in steps)
    checkpoint = load_training_checkpoint(tmp_path / 'epoch_1.pth')
    assert checkpoint['meta']['iter'] == 2  # 96 images in batches of 2 x 24
    assert any(name.startswith('teacher.') for name in checkpoint['state_dict'])
