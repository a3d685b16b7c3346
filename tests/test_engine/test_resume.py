"""Stopping BAM at any iteration and resuming gives the run that never stopped."""

import json
import os
import signal
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.runner import Runner

from mmbam.datasets import dataset_of
from mmbam.datasets.shards.pack import pack_images
from mmbam.engine.resuming import find_checkpoint
from mmbam.engine.signals import Stopped, stop_signals
from mmbam.utils.model import unwrap
from tests.helpers.distributed import run_ranks
from tests.helpers.tiny import VIT, bam_config

STEPS = 20  # 5 batches of 2 images in an epoch


@pytest.fixture(scope='module')
def photos(tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp('runs') / 'photos'
    folder.mkdir()
    for i in range(10):
        image = rng.integers(0, 255, (6, 6, 3), np.uint8)
        image = cv2.resize(image, (48, 40), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / f'{i}.png'), image)
    return folder


class Interrupt(Hook):
    """Sends a signal to its own process during an iteration."""

    def __init__(self, at, number=signal.SIGTERM):
        self.at, self.number = at, number

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if runner.iter + 1 == self.at:
            os.kill(os.getpid(), self.number)


def build(photos, name, by_epoch=True, workers=0, batch_size=2, stop=None, **kwargs):
    """A run with everything that draws or remembers: views, boxes, teacher, drops."""
    backbone = dict(VIT, drop_path_rate=kwargs.pop('drop', 0.5))
    teacher = dict(type='mmbam.EMATeacher', momentum=0.9)
    view = dict(blur=0.5, solarize=0.2)
    localize = dict(
        type='mmbam.LocalizeHook',
        start_epoch=1,
        interval=3,
        image_size=32,
        batch_size=4,
        threshold=0.5,
    )
    loop = dict(type='mmbam.EpochLoop', max_epochs=kwargs.pop('epochs', STEPS // 5))
    if not by_epoch:
        loop = dict(type='mmbam.IterLoop', max_iters=STEPS)
    sampler = 'DefaultSampler' if by_epoch else 'InfiniteSampler'
    optimizer = kwargs.pop('optimizer', dict(type='AdamW', lr=0.01))
    runner = Runner(
        bam_config(backbone, teacher=teacher),
        work_dir=str(photos.parent / name),
        train_dataloader=dict(
            batch_size=batch_size,
            num_workers=workers,
            persistent_workers=workers > 0,
            sampler=dict(type=sampler, shuffle=True),
            collate_fn=dict(type='default_collate'),
            dataset=dataset_of(
                kwargs.pop('data', photos),
                pipeline=[
                    dict(type='mmbam.LoadImage'),
                    dict(
                        type='mmbam.MultiCrop',
                        views=[
                            dict(num=2, size=32, area=(0.25, 1), **view),
                            dict(num=2, size=16, area=(0.05, 0.25), **view),
                        ],
                    ),
                    dict(type='mmpretrain.PackInputs'),
                ],
            ),
        ),
        train_cfg=loop,
        optim_wrapper=dict(optimizer=optimizer),
        param_scheduler=[
            dict(type='CosineAnnealingLR', T_max=STEPS, by_epoch=False),
            dict(
                type='CosineAnnealingParamScheduler',
                param_name='weight_decay',
                eta_min=0.1,
                T_max=STEPS,
                by_epoch=False,
            ),
        ],
        default_hooks=dict(
            checkpoint=dict(type='mmbam.CheckpointHook', by_epoch=by_epoch, interval=1),
            logger=dict(type='LoggerHook', interval=1),
        ),
        custom_hooks=[
            dict(type='mmbam.SeedByEpochHook'),
            *([localize] if by_epoch else []),
            *([Interrupt(stop)] if stop else []),
        ],
        randomness=dict(seed=0),
        experiment_name=f'{photos.parent.name}-{name}-{time.time()}',
        **kwargs,
    )
    if runner._resume:
        find_checkpoint(runner)
    return runner


def run(*args, **kwargs):
    runner = build(*args, **kwargs)
    try:
        with stop_signals():
            runner.train()
    except Stopped as stop:
        assert stop.code == 128 + signal.SIGTERM
    return runner


def logged(folder):
    """Iterations and losses in the logs of all runs in a folder."""
    paths = sorted(folder.glob('*/vis_data/scalars.json'))
    lines = [line for path in paths for line in path.read_text().splitlines()]
    steps = [json.loads(line) for line in lines]
    return [(step['step'], step.get('epoch'), step['loss']) for step in steps]


def assert_equal_runs(whole, resumed):
    expected, found = whole.model.state_dict(), resumed.model.state_dict()
    assert any(name.startswith('teacher.') for name in expected)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
    pairs = zip(
        whole.optim_wrapper.state_dict()['state'].values(),
        resumed.optim_wrapper.state_dict()['state'].values(),
    )
    for before, after in pairs:
        assert all(torch.equal(after[name], before[name]) for name in before)
    groups = [r.optim_wrapper.param_groups[0] for r in (whole, resumed)]
    for name in ('lr', 'weight_decay'):
        assert groups[0][name] == groups[1][name]
    assert logged(Path(whole.work_dir)) == logged(Path(resumed.work_dir))


@pytest.fixture(scope='module')
def whole(photos):
    return run(photos, 'whole')


@pytest.mark.parametrize(
    'stop, workers',
    [
        (2, 2),  # in the first epoch
        (7, 0),  # in the epoch that began with new boxes
        (10, 2),  # after the last batch of an epoch, before its end
    ],
)
def test_a_run_that_goes_on_equals_one_that_never_stopped(photos, whole, stop, workers):
    name = f'stopped-{stop}'
    stopped = run(photos, name, stop=stop)
    assert stopped.iter + 1 == stop
    saved = photos.parent / name / f'autosave_iter_{stop}.pth'
    assert Path(stopped.message_hub.get_info('last_ckpt')) == saved
    (photos.parent / name / 'last_checkpoint').unlink()
    resumed = run(photos, name, workers=workers, resume=True)
    assert resumed.cfg.load_from == str(saved)
    assert_equal_runs(whole, resumed)
    assert not saved.exists(), 'a complete run needs no autosave'


def test_shards_give_the_run_of_their_files(photos, whole):
    """Also its boxes, and when it goes on with the files or with the shards."""
    shards = photos.parent / 'shards'
    pack_images(photos, shards, shard_size=9000, workers=0)
    assert len(list(shards.glob('*.tar'))) > 1
    assert_equal_runs(whole, run(photos, 'of-shards', data=shards, workers=2))
    run(photos, 'changing', stop=7)
    resumed = run(photos, 'changing', data=shards, resume=True)
    assert_equal_runs(whole, resumed)


def test_without_epochs_too(photos):
    whole = run(photos, 'iters', by_epoch=False)
    run(photos, 'stopped-iters', by_epoch=False, workers=2, stop=7)
    resumed = run(photos, 'stopped-iters', by_epoch=False, workers=1, resume=True)
    assert_equal_runs(whole, resumed)
    # Each of the 10 images is seen once in 5 batches, with other views the next time.
    losses = [loss for *_, loss in logged(photos.parent / 'iters')]
    assert len(set(losses)) == STEPS


# 7 epochs of 3 batches of 4 images.
SGD = dict(epochs=7, drop=0.0, optimizer=dict(type='SGD', lr=0.05, momentum=0.9))


def resumed_by_a_rank(photos, name):
    torch.set_num_threads(1)
    # The runner's own choice of a wrapper needs a GPU.
    wrapper = dict(type='MMDistributedDataParallel', device_ids=None)
    cfg = dict(model_wrapper_cfg=wrapper)
    ranks = dict(launcher='pytorch', cfg=cfg, batch_size=2)
    runner = run(photos, name, resume=True, **ranks, **SGD)
    assert is_model_wrapper(runner.model)
    return {k: v.numpy() for k, v in unwrap(runner.model).state_dict().items()}


@pytest.mark.slow
def test_another_number_of_ranks_goes_on_as_closely_as_numbers_allow(photos):
    whole = run(photos, 'one-rank', batch_size=4, **SGD)
    stopped = run(photos, 'two-ranks', batch_size=4, stop=1, **SGD)
    ranks = run_ranks(resumed_by_a_rank, 2, photos, 'two-ranks')
    begin, moved = stopped.model.state_dict(), 0.0
    for name, value in whole.model.state_dict().items():
        moved = max(moved, float((value - begin[name]).abs().max()))
        for found in ranks:
            assert abs(found[name] - value.numpy()).max() <= 1e-5, name
    assert moved > 1e-2, 'the 20 iterations changed something'


def test_another_batch_is_refused_in_the_middle_of_an_epoch(photos):
    run(photos, 'batches', stop=2)
    with pytest.raises(ValueError, match='batches of 2 samples .* but this run has 5'):
        run(photos, 'batches', batch_size=5, resume=True)


def test_nothing_to_resume_from(photos):
    runner = build(photos, 'empty', resume=True)
    log = next(Path(runner.work_dir).glob('*/*.log')).read_text()
    sentence = f'no checkpoint in {runner.work_dir}: starting from the beginning'
    assert log.count(sentence) == 1
    assert runner.cfg.load_from is None
