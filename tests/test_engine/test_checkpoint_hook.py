"""mmbam.CheckpointHook: by time, after signals, and old ones last."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch
from mmengine.fileio import LocalBackend
from mmengine.hooks import Hook

from mmbam.engine.loops import Batches, start_loader
from mmbam.engine.signals import received, stop_signals
from mmbam.engine.work_dir import lock_work_dir
from tests.helpers.blobs import build, dataset, write_blobs

LOOP = dict(type='mmbam.EpochLoop', max_epochs=2)


@pytest.fixture(scope='module')
def blobs(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data') / 'blobs'
    write_blobs(folder)
    return folder


def make(blobs, work_dir, *hooks, **checkpoint):
    checkpoint = dict(type='mmbam.CheckpointHook', **checkpoint)
    # Batches of 4 of 10 images: 3 iterations in an epoch.
    runner = build(dataset(blobs), work_dir, [], train_cfg=LOOP)
    for hook in [*hooks, checkpoint]:
        runner.register_hook(hook)
    runner._hooks = [
        h
        for h in runner.hooks
        if type(h).__module__ != 'mmengine.hooks.checkpoint_hook'
    ]
    return runner


class Watch(Hook):
    """Lists the checkpoints after every iteration."""

    priority = 'LOWEST'

    def __init__(self):
        self.seen = []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.seen.append(sorted(p.stem for p in Path(runner.work_dir).glob('*.pth')))


def test_checkpoints_by_time(tmp_path, blobs):
    watch = Watch()
    make(blobs, tmp_path, watch, interval=1, minutes=1e-9).train()
    assert watch.seen[0] == ['autosave_iter_1']
    assert watch.seen[2] == ['autosave_iter_2', 'autosave_iter_3']
    assert watch.seen[4] == ['autosave_iter_4', 'autosave_iter_5', 'epoch_1']
    assert sorted(p.stem for p in tmp_path.glob('*.pth')) == ['epoch_1', 'epoch_2']
    watch = Watch()
    make(blobs, tmp_path / 'b', watch, interval=1, minutes=15).train()
    assert watch.seen == 3 * [[]] + 3 * [['epoch_1']]
    with pytest.raises(ValueError, match='minutes must be above 0, or None, got 0'):
        make(blobs, tmp_path / 'c', minutes=0)


def test_a_step_that_is_not_complete_is_not_saved(tmp_path, blobs):
    """Its gradients would be lost."""
    watch = Watch()
    runner = make(blobs, tmp_path, watch, minutes=1e-9)
    runner.optim_wrapper['accumulative_counts'] = 2
    runner.train()
    assert watch.seen[:3] == [[], ['autosave_iter_2'], ['autosave_iter_2']]


def test_an_old_checkpoint_goes_when_the_new_one_is_in_place(
    tmp_path, blobs, monkeypatch
):
    removed = []

    def remove(self, path):
        removed.append(
            (Path(path).name, sorted(p.name for p in tmp_path.glob('*.pth')))
        )
        os.remove(path)

    monkeypatch.setattr(LocalBackend, 'remove', remove)
    make(blobs, tmp_path, interval=1, max_keep_ckpts=1).train()
    assert removed == [('epoch_1.pth', ['epoch_1.pth', 'epoch_2.pth'])]
    assert (tmp_path / 'last_checkpoint').read_text() == str(tmp_path / 'epoch_2.pth')


class Kill(Hook):
    def __init__(self, number):
        self.number = number

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if runner.iter == 1:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize('name', ['SIGTERM', 'SIGINT', 'SIGUSR1', 'SIGHUP'])
def test_a_signal_ends_the_iteration_and_saves(tmp_path, blobs, name, capfd):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as stop, stop_signals():
        make(blobs, tmp_path, Kill(number)).train()
    assert stop.value.code == 128 + number
    saved = tmp_path / 'autosave_iter_2.pth'
    assert [p.name for p in tmp_path.glob('*.pth')] == [saved.name]
    log = next(tmp_path.glob('*/*.log')).read_text()
    assert (
        log.count(f'Stopped by {name} after iteration 2. The run is saved in {saved}')
        == 1
    )
    assert signal.getsignal(number) is before and received() == 0


def test_a_second_interrupt_ends_at_once():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.environ.pop('TORCHELASTIC_RUN_ID', None)
        with stop_signals():
            os.kill(os.getpid(), signal.SIGINT)
            os.write(writer, b'1')
            os.kill(os.getpid(), signal.SIGINT)
            os.write(writer, b'2')
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    assert os.read(reader, 9) == b'1'
    assert os.WTERMSIG(status) == signal.SIGINT


class Numbers(torch.utils.data.Dataset):
    def __init__(self, length):
        self.length, self.read = length, []

    def __getitem__(self, index):
        self.read.append(index)
        return index

    def __len__(self):
        return self.length


def test_a_million_samples_are_left_out_unread_in_seconds():
    data = Numbers(1_000_100)
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    began = time.process_time()
    batches = list(start_loader(loader, 250_000))
    assert time.process_time() - began < 5
    assert data.read == list(range(1_000_000, 1_000_100))
    assert torch.cat(batches).tolist() == data.read
    # The next epoch is whole.
    assert isinstance(loader.batch_sampler, Batches) and len(loader) == 250_025
    assert next(iter(loader)).tolist() == [0, 1, 2, 3]


def test_workers_live_through_signals_to_all_but_not_through_their_parents():
    loader = torch.utils.data.DataLoader(Numbers(8), num_workers=1, batch_size=1)
    batches = start_loader(loader, 0)
    worker = batches._workers[0]
    assert next(batches).item() == 0
    if os.fork() == 0:  # somebody else than its parent
        os.kill(worker.pid, signal.SIGTERM)
        os.kill(worker.pid, signal.SIGINT)
        os._exit(0)
    os.wait()
    assert [batch.item() for batch in batches] == list(range(1, 8))
    batches = start_loader(loader, 0)
    next(batches)
    worker = batches._workers[0]
    os.kill(worker.pid, signal.SIGTERM)
    worker.join(timeout=30)
    assert worker.exitcode == 0


def test_a_work_directory_in_use_is_refused(tmp_path):
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        lock_work_dir(tmp_path)
        os.write(ready[1], b'1')
        os.read(done[0], 1)
        os.kill(os.getpid(), signal.SIGKILL)
    os.read(ready[0], 1)
    owner = f'process {child} on host {os.uname().nodename}'
    with pytest.raises(ValueError, match=f'in use by a run that is alive .{owner}'):
        lock_work_dir(tmp_path)
    os.write(done[1], b'1')
    os.waitpid(child, 0)
    lock_work_dir(tmp_path)  # a killed run leaves no lock
    lock_work_dir(tmp_path)  # of this very process
