"""A checkpoint of one stack resumes and evaluates on the other (``make cross``)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mmbam.checkpoints import load_training_checkpoint
from mmbam.demo.world import make_world

ROOT = Path(__file__).parents[1]
PYTHONS = {
    stack: os.environ.get(f'MMBAM_PYTHON_{stack.upper()}')
    for stack in ('classic', 'modern')
}
pytestmark = pytest.mark.skipif(
    not any(PYTHONS.values()), reason='needs both environments: make cross'
)
OPTIONS = (
    'train_cfg.max_epochs=2',
    'train_dataloader.batch_size=16',
    'train_dataloader.num_workers=0',
    'train_dataloader.persistent_workers=False',
    'default_hooks.checkpoint.interval=1',
)
FEATURES = """
import sys
import numpy as np, torch
from mmengine.config import Config
from mmbam.evaluation.frozen import build_frozen
from mmbam.models import pool_features

images, out, *pairs = sys.argv[1:]
images = torch.from_numpy(np.load(images))
features = {}
for config, checkpoint in zip(pairs[::2], pairs[1::2]):
    for source in ('student', 'teacher'):
        backbone, _ = build_frozen(Config.fromfile(config), checkpoint, source)
        with torch.no_grad():
            features[f'{checkpoint} {source}'] = pool_features(backbone(images))
np.savez(out, **{name: value.numpy() for name, value in features.items()})
"""
NETWORKS = ('resnet', 'vit')


def run(stack: str, *args, cwd: Path) -> subprocess.CompletedProcess:
    """Run the Python of a stack on this repository."""
    done = subprocess.run(
        [PYTHONS[stack], *map(str, args)],
        cwd=cwd,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def config_of(network: str) -> Path:
    return ROOT / f'configs/tiny/bam_{network}_32px.py'


def reader_of(writer: str) -> str:
    return dict(classic='modern', modern='classic')[writer]


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> Path:
    """Two epochs on each stack, and the second of them again on the other.

    ``NETWORK-STACK`` has the run that stayed there, ``NETWORK-STACK-left`` what the
    other stack made of its first epoch.
    """
    folder = tmp_path_factory.mktemp('stacks')
    world = dict(patches=(64, 32), scenes=(0, 0), videos=(0, 0), num_classes=4)
    make_world(folder / 'data' / 'world', progress=False, **world)
    for network in NETWORKS:
        tool = '-m', 'mmbam', 'train', config_of(network), '--cfg-options', *OPTIONS
        for writer in PYTHONS:
            name = f'{network}-{writer}'
            run(writer, *tool, '--work-dir', name, cwd=folder)
            resume = ('--resume', f'{name}/epoch_1.pth')
            more = ('--work-dir', f'{name}-left', *resume)
            done = run(reader_of(writer), *tool, *more, cwd=folder)
            assert 'resumed epoch: 1, iter: 4' in done.stdout + done.stderr
    return folder


def test_the_environments_are_of_two_stacks(tmp_path):
    program = 'import torch, mmbam; print(torch.__version__, mmbam.__file__)'
    said = {s: run(s, '-c', program, cwd=tmp_path).stdout.split() for s in PYTHONS}
    assert said['classic'][0].startswith('2.1.')
    assert not said['modern'][0].startswith('2.1.')
    assert {path for _, path in said.values()} == {str(ROOT / 'mmbam/__init__.py')}


def test_features_of_a_checkpoint_are_the_same_on_both(folder):
    images = np.random.default_rng(0).normal(size=(8, 3, 32, 32))
    np.save(folder / 'images.npy', images.astype(np.float32))
    pairs = [
        argument
        for network in NETWORKS
        for writer in PYTHONS
        for file in (f'{writer}/epoch_1.pth', f'{writer}-left/epoch_2.pth')
        for argument in (config_of(network), f'{network}-{file}')
    ]
    for stack in PYTHONS:
        run(stack, '-c', FEATURES, 'images.npy', f'{stack}.npz', *pairs, cwd=folder)
    classic, modern = (np.load(folder / f'{stack}.npz') for stack in PYTHONS)
    assert len(classic.files) == len(pairs), 'student and teacher of each'
    for name in classic.files:
        assert classic[name].shape[0] == 8 and classic[name].std(0).max() > 0.01, name
        np.testing.assert_allclose(
            modern[name], classic[name], rtol=0, atol=1e-5, err_msg=name
        )


@pytest.mark.parametrize('network', NETWORKS)
@pytest.mark.parametrize('writer', list(PYTHONS))
def test_a_run_goes_on_as_if_it_had_stayed(folder, network, writer):
    """Up to what rounding does in four steps."""
    stayed, left = (
        load_training_checkpoint(folder / f'{network}-{name}/epoch_2.pth')
        for name in (writer, f'{writer}-left')
    )
    assert stayed['meta']['iter'] == left['meta']['iter'] == 8
    histories = [
        state['message_hub']['log_scalars']['train/loss'].data[0]
        for state in (stayed, left)
    ]
    np.testing.assert_array_equal(histories[0][:4], histories[1][:4])
    np.testing.assert_allclose(*histories, rtol=1e-3)

    before = load_training_checkpoint(folder / f'{network}-{writer}/epoch_1.pth')
    assert stayed['state_dict'].keys() == left['state_dict'].keys()
    # A batch norm takes the biases before it away again: what moves them is rounding
    # alone, of which Adam makes whole steps.
    lost = 'neck.layers.0.bias', 'neck.layers.3.bias', 'neck.layers.6.bias'
    for name, value in stayed['state_dict'].items():
        if network == 'resnet' and name.endswith(lost):
            continue
        moved = (value - before['state_dict'][name]).float().norm()
        apart = (value - left['state_dict'][name]).float().norm()
        assert apart <= 0.1 * moved + 1e-6, name
    groups = [state['optimizer']['param_groups'][0] for state in (stayed, left)]
    for name in ('lr', 'weight_decay'):
        assert groups[0][name] == pytest.approx(groups[1][name])


def test_knn_of_a_checkpoint_is_the_same_on_both(folder):
    tool = ('-m', 'mmbam', 'knn', config_of('resnet'), '--k', 5, '--num-workers', 0)
    figures = {
        run(
            stack, *tool, 'resnet-classic-left/epoch_2.pth', cwd=folder
        ).stdout.splitlines()[-1]
        for stack in PYTHONS
    }
    assert len(figures) == 1 and '5-NN: top-1' in figures.pop()
