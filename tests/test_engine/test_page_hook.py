"""A page about a run, which never changes the run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mmengine.runner import Runner

from mmbam.datasets.folder import dataset_of
from mmbam.datasets.shards.pack import pack_images
from mmbam.engine import run_page
from mmbam.engine.hooks import PageHook
from tests.helpers.folders import write_photos
from tests.helpers.tiny import RESNET, VIT, bam_config


@pytest.fixture(scope='module')
def photos(tmp_path_factory):
    folder = write_photos(tmp_path_factory.mktemp('page') / 'photos', number=12)
    (folder / 'a' / 'broken.png').write_bytes(b'no image')
    return folder


def build(photos, work_dir, page=True, seeded=True, backbone=VIT, **loss):
    """A run of boxes, a teacher and dropped paths; not seeded, it shows every draw."""
    teacher = dict(type='mmbam.EMATeacher', momentum=0.9)
    drop = dict(drop_path_rate=0.5) if backbone is VIT else {}
    views = [
        dict(num=2, size=32, area=(0.25, 1), blur=0.5),
        dict(num=2, size=16, area=(0.05, 0.25)),
    ]
    hooks = [
        dict(type='mmbam.LocalizeHook', start_epoch=1, interval=1, image_size=32),
        dict(type='mmbam.MonitorHook', interval=1),
    ]
    hooks += [dict(type='mmbam.SeedByEpochHook')] * seeded
    hooks += [dict(type='mmbam.PageHook')] * page
    return Runner(
        bam_config({**backbone, **drop}, teacher=teacher, **loss),
        work_dir=str(work_dir),
        train_dataloader=dict(
            batch_size=4,
            num_workers=0,
            drop_last=True,
            sampler=dict(type='DefaultSampler', shuffle=True),
            collate_fn=dict(type='default_collate'),
            dataset=dict(
                type='mmpretrain.CustomDataset',
                data_root=str(photos),
                with_label=False,
                pipeline=[
                    dict(type='mmbam.LoadImage'),
                    dict(type='mmbam.MultiCrop', views=views),
                    dict(type='mmpretrain.PackInputs'),
                ],
            ),
        ),
        train_cfg=dict(type='mmbam.EpochLoop', max_epochs=2),
        optim_wrapper=dict(optimizer=dict(type='AdamW', lr=0.01)),
        default_hooks=dict(
            logger=dict(type='LoggerHook', interval=1),
            checkpoint=dict(type='mmbam.CheckpointHook', interval=10),
        ),
        custom_hooks=hooks,
        randomness=dict(seed=0),
        experiment_name=str(work_dir).replace('/', '_'),
    )


@pytest.mark.parametrize('backbone', [VIT, RESNET], ids=['vit', 'resnet'])
@pytest.mark.parametrize('seeded', [True, False])
def test_a_run_with_a_page_ends_with_the_same_weights(
    photos, tmp_path, seeded, backbone
):
    states = []
    for page in (True, False):
        runner = build(photos, tmp_path / str(page), page, seeded, backbone)
        runner.train()
        states.append(runner.model.state_dict())
        assert (tmp_path / str(page) / 'index.html').is_file() == page
        draws = torch.rand(1).item(), np.random.random_sample()
        states[-1]['draws'] = torch.tensor(draws)
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


def test_the_page_has_curves_neighbours_views_and_crops(photos, tmp_path):
    runner = build(photos, tmp_path)
    runner.train()
    page = (tmp_path / 'index.html').read_text(encoding='utf-8')
    assert page.count('<img') == 4
    assert 'The run is complete: 6 of 6 steps' in page
    assert 'could not be drawn' not in page and 'None so far.' in page


def test_images_of_shards_are_shown(photos, tmp_path):
    pack_images(photos, tmp_path / 'shards', workers=1)
    runner = build(photos, tmp_path / 'run')
    dataset = runner._train_dataloader['dataset']
    dataset.update(dataset_of(tmp_path / 'shards'), with_label=False)
    runner.train()
    page = (tmp_path / 'run/index.html').read_text(encoding='utf-8')
    assert page.count('<img') == 4 and '12, in ' in page


def test_a_first_page_is_there_before_the_first_step(photos, tmp_path):
    runner = build(photos, tmp_path)
    seen = []

    def look(hook, runner, batch_idx, data_batch=None):
        seen.append((tmp_path / 'index.html').read_text(encoding='utf-8'))
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(PageHook, 'before_train_iter', look)
        runner.train()
    assert 'Training begins.' in seen[0] and 'Nothing is logged yet.' in seen[0]
    assert 'Crops are random until epoch 1' in seen[0]


def test_a_picture_that_fails_is_named_and_the_run_goes_on(
    photos, tmp_path, monkeypatch
):
    def fail(*args):
        raise RuntimeError('no ink')

    monkeypatch.setattr(run_page, 'draw_views', fail)
    build(photos, tmp_path).train()
    page = (tmp_path / 'index.html').read_text(encoding='utf-8')
    assert 'could not be drawn (views: RuntimeError: no ink)' in page
    assert page.count('<img') == 3
    log = next(tmp_path.glob('*/*.log')).read_text()
    assert 'index.html is not complete: views: RuntimeError: no ink' in log


def test_a_page_that_cannot_be_written_is_named_and_the_run_goes_on(photos, tmp_path):
    (tmp_path / 'index.html').mkdir()
    build(photos, tmp_path).train()
    log = next(tmp_path.glob('*/*.log')).read_text()
    assert 'index.html is not complete: InputError: ' in log


def test_alarms_are_on_the_page(photos, tmp_path):
    runner = build(photos, tmp_path)
    runner.message_hub.update_info(
        'mmbam_alarms', [dict(iter=50, message='The run is <dead>.')]
    )
    runner.train()
    page = (tmp_path / 'index.html').read_text(encoding='utf-8')
    assert 'Step 50: The run is &lt;dead&gt;.' in page


def test_other_ranks_write_nothing(photos, tmp_path, monkeypatch):
    monkeypatch.setattr('mmbam.engine.hooks.page_hook.is_main_process', lambda: False)
    build(photos, tmp_path).train()
    assert not (tmp_path / 'index.html').exists()


@pytest.mark.parametrize('wrong', [dict(interval=0), dict(minutes=0)])
def test_arguments_are_checked(wrong):
    with pytest.raises(ValueError, match='interval must be at least 1 and minutes'):
        PageHook(**wrong)
