"""Runs on several ranks and nodes survive what they can and say what they cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mmbam.checkpoints import load_training_checkpoint
from tests.helpers.folders import write_photos
from tests.helpers.run import ROOT, run_verb

pytestmark = pytest.mark.slow

# A model and data without files. The second rank is killed once, in the third epoch.
CONFIG = """
custom_imports = dict(imports=['nodes_helper'])
model = dict(type='NodesModel')
train_dataloader = dict(
    batch_size=4, num_workers=0, collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(type='NodesData'))
train_cfg = dict(by_epoch=True, max_epochs=5)
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.01, momentum=0.9))
default_hooks = dict(checkpoint=dict(type='CheckpointHook', interval=1))
env_cfg = dict(dist_cfg=dict(backend='gloo'))
randomness = dict(seed=0)
custom_hooks = [dict(type='Disturb')]
"""
HELPER = """
import os, signal, time
import torch
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.registry import DATASETS, HOOKS, MODELS

@MODELS.register_module()
class NodesModel(BaseModel):
    def __init__(self, **kwargs):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, x, mode):
        return dict(loss=(self.layer(x) - x.sum(1, keepdim=True)).square().mean())

@DATASETS.register_module()
class NodesData(torch.utils.data.Dataset):
    metainfo = {}
    def __len__(self):
        return 32

    def __getitem__(self, i):
        return dict(x=torch.randn(8, generator=torch.Generator().manual_seed(i)))

@HOOKS.register_module()
class Disturb(Hook):
    def __init__(self, kill=False, seconds=0):
        self.kill, self.seconds = kill, seconds

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        time.sleep(self.seconds)
        first = os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'
        if self.kill and first and runner.rank == 1 and runner.iter == 10:
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope='module')
def config(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('nodes')
    (folder / 'nodes_helper.py').write_text(HELPER)
    (folder / 'nodes.py').write_text(CONFIG)
    return folder / 'nodes.py'


def environment(config: Path, **variables: str) -> dict[str, str]:
    path = f'{config.parent}:{os.environ.get("PYTHONPATH", "")}'
    return {**os.environ, 'PYTHON': sys.executable, 'PYTHONPATH': path, **variables}


def test_a_killed_rank_costs_the_work_since_the_last_checkpoint(config, tmp_path):
    command = [str(ROOT / 'tools' / 'dist_train.sh'), str(config), '2']
    weights = {}
    for name in ('whole', 'killed'):
        options = ['--cfg-options', f'custom_hooks.0.kill={name == "killed"}']
        done = subprocess.run(
            [*command, '--work-dir', str(tmp_path / name), *options],
            env=environment(config, RESTARTS='1'),
            capture_output=True,
            text=True,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said[-3000:]
        assert ('resumed epoch: 2' in said) == (name == 'killed')
        state = load_training_checkpoint(tmp_path / name / 'epoch_5.pth')
        assert state['meta']['iter'] == 20
        weights[name] = state['state_dict']['layer.weight']
    assert torch.equal(weights['whole'], weights['killed'])


def has_namespaces() -> bool:
    if shutil.which('ip') is None:
        return False
    made = subprocess.run(['ip', 'netns', 'add', 'mmbam-try'], capture_output=True)
    subprocess.run(['ip', 'netns', 'del', 'mmbam-try'], capture_output=True)
    return made.returncode == 0


@pytest.fixture
def nodes():
    """Two network namespaces with a link between them, as two machines."""
    if not has_namespaces():
        pytest.skip('network namespaces (ip netns) are not allowed here')
    names = [f'mmbam-{os.getpid()}-{i}' for i in range(2)]
    for name in names:
        ip('netns', 'add', name)
    link = ('link', 'add', 'eth0', 'netns', names[0], 'type', 'veth')
    ip(*link, 'peer', 'name', 'eth0', 'netns', names[1])
    for i, name in enumerate(names):
        ip('-n', name, 'addr', 'add', f'10.77.0.{i + 1}/24', 'dev', 'eth0')
        ip('-n', name, 'link', 'set', 'lo', 'up')
        ip('-n', name, 'link', 'set', 'eth0', 'up')
    yield names
    for name in names:
        ip('netns', 'del', name)


def ip(*words: str) -> None:
    subprocess.run(['ip', *words], check=True)


def test_two_nodes_train_and_say_that_their_link_is_cut(config, tmp_path, nodes):
    address = dict(NNODES='2', MASTER_ADDR='10.77.0.1', PORT='29517')
    options = ['custom_hooks.0.seconds=0.2', 'train_cfg.max_epochs=1000']
    options += ['env_cfg.dist_cfg.timeout=20']
    runs = [
        subprocess.Popen(
            ['ip', 'netns', 'exec', name, str(ROOT / 'tools' / 'dist_train.sh')]
            + [str(config), '1', '--work-dir', str(tmp_path / str(i))]
            + ['--cfg-options', *options],
            env=environment(
                config, NODE_RANK=str(i), GLOO_SOCKET_IFNAME='eth0', **address
            ),
            stdout=subprocess.DEVNULL,
            stderr=(tmp_path / f'{i}.txt').open('w'),
        )
        for i, name in enumerate(nodes)
    ]
    try:
        deadline = time.monotonic() + 200
        while not (tmp_path / '0' / 'epoch_1.pth').exists():
            assert all(run.poll() is None for run in runs), said(tmp_path)
            assert time.monotonic() < deadline, said(tmp_path)
            time.sleep(0.2)
        ip('-n', nodes[0], 'link', 'set', 'eth0', 'down')
        start = time.monotonic()
        for run in runs:
            assert run.wait(timeout=120) != 0
        assert time.monotonic() - start < 80, '20 s, and 30 to end a frozen process'
    finally:
        for run in runs:
            run.kill()
    for i in range(2):
        text = (tmp_path / f'{i}.txt').read_text()
        assert f'mmbam train: Rank {i} lost contact with another rank' in text, text[
            -3000:
        ]
    assert load_training_checkpoint(tmp_path / '0' / 'epoch_1.pth')['meta']['iter'] == 4


THIN = [
    '--cfg-options',
    'model.backbone.base_channels=4',
    'model.backbone.stem_channels=4',
    'model.neck.hid_channels=16',
    'model.neck.out_channels=16',
    'train_dataloader.num_workers=0',
    'train_dataloader.persistent_workers=False',
]


def test_two_nodes_pretrain_and_evaluate_as_one_does(tmp_path, nodes):
    """Each has a folder of its own, as machines without a shared disk."""
    write_photos(tmp_path / 'photos')
    write_photos(tmp_path / 'test', 10)

    def on_both(*words: object) -> None:
        runs = []
        for i, name in enumerate(nodes):
            (tmp_path / str(i)).mkdir(exist_ok=True)
            variables = dict(
                NNODES='2', NODE_RANK=str(i), MASTER_ADDR='10.77.0.1', PORT='29518',
                GLOO_SOCKET_IFNAME='eth0',
            )  # fmt: skip
            command = ['ip', 'netns', 'exec', name, sys.executable, '-m', 'mmbam']
            runs.append(
                subprocess.Popen(
                    [*command, *map(str, words), '--devices', '1'],
                    cwd=tmp_path / str(i),
                    env={**os.environ, 'PYTHONPATH': str(ROOT), **variables},
                    stdout=(tmp_path / f'{i}.out').open('w'),
                    stderr=(tmp_path / f'{i}.txt').open('w'),
                )
            )
        try:
            codes = [run.wait(timeout=600) for run in runs]
        finally:
            for run in runs:
                run.kill()
        assert codes == [0, 0], said(tmp_path)

    photos = tmp_path / 'photos'
    words = ['pretrain', photos, '--epochs', 1, '--batch-size', 8]
    on_both(*words, '--out', 'run', *THIN)
    first, second = (Path(tmp_path, f'{i}.out').read_text() for i in range(2))
    assert 'What you may type next' in first and not second
    run = tmp_path / '0/run'
    state = load_training_checkpoint(run / 'epoch_1.pth')['state_dict']
    done = subprocess.run(
        [sys.executable, '-m', 'mmbam', *map(str, words), '--out', tmp_path / 'one']
        + ['--devices', '2', *THIN],
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    other = load_training_checkpoint(tmp_path / 'one/epoch_1.pth')['state_dict']
    assert all(torch.equal(value, other[name]) for name, value in state.items())

    knn = ['knn', run / 'config.py', run / 'epoch_1.pth', '--size', 32, '--k', 3]
    knn += ['--train', photos, '--test', tmp_path / 'test', '--num-workers', 0]
    on_both(*knn)
    printed, error = run_verb(*knn)
    assert error is None
    line = printed.splitlines()[-1]
    assert line.startswith('3-NN') and line in (tmp_path / '0.out').read_text()
    assert '3-NN' not in (tmp_path / '1.out').read_text()


def said(folder: Path) -> str:
    return '\n'.join((folder / f'{i}.txt').read_text()[-2000:] for i in range(2))
