"""The config that follows from images, a network and a length."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, PARAM_SCHEDULERS, init_default_scope

from mmbam.engine.config_check import check_config, schedule_warnings
from mmbam.recipes.derive import derive
from mmbam.recipes.folder import ImageFolder
from mmbam.recipes.wishes import Wishes

FOLDER = str(Path(__file__).parent)  # of no images, which nobody reads here
THIN = {'model.backbone.base_channels': 8, 'model.backbone.stem_channels': 8}


@pytest.fixture(autouse=True)
def scope():
    init_default_scope('mmpretrain')


def recipe(count=1000, side=32, model='resnet18', options=THIN, **kwargs):
    options = options if model == 'resnet18' else {}
    wishes = Wishes(model, 'runs/x', options=dict(options), **kwargs)
    return derive(ImageFolder(FOLDER, count, side), wishes)


def hooks(cfg):
    return {hook['type'].partition('.')[2]: hook for hook in cfg.custom_hooks}


@pytest.mark.parametrize('epochs', [1, 3, 100, 2000])
@pytest.mark.parametrize('gpu', [False, True])
def test_every_config_is_sound_and_its_schedules_end_with_the_run(epochs, gpu):
    cfg = recipe(epochs=epochs, gpu=gpu).config
    check_config(cfg)
    steps = 1000 // cfg.train_dataloader.batch_size * epochs
    assert schedule_warnings(cfg, epochs, steps) == []
    assert Config.fromstring(cfg.pretty_text, '.py').to_dict() == cfg.to_dict()


@pytest.mark.parametrize('steps', [1, 2, 3, 8])
def test_the_rate_reaches_its_peak_however_short_the_run(steps):
    cfg = recipe(count=64, epochs=steps).config
    weight = torch.nn.Parameter(torch.zeros(1))
    peak = cfg.optim_wrapper.optimizer.lr
    optimizer = torch.optim.SGD([weight], lr=peak)
    schedulers = [
        PARAM_SCHEDULERS.build(dict(schedule, optimizer=optimizer))
        for schedule in cfg.param_scheduler
    ]
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    assert max(rates) == pytest.approx(peak)


def test_a_short_run_has_batch_norm_and_two_views_and_no_teacher():
    model = recipe(epochs=10).config.model
    assert model.teacher is None
    assert model.neck.norm_cfg == dict(type='BN1d')
    assert model.head.loss.num_views == 2
    assert model.head.loss.tau_b == 0.03


def test_a_long_run_has_the_recipe_of_the_paper():
    cfg = recipe(
        1_281_167, 375, epochs=300, batch_size=4096, gpu=True, options={}
    ).config
    assert cfg.model.teacher.momentum == 0.995
    assert cfg.model.neck.norm_cfg is None
    assert cfg.model.neck.out_channels == 4096
    assert cfg.model.head.loss.tau_b == 0.05
    views = cfg.train_dataloader.dataset.pipeline[1].views
    assert [(view.size, view.get('num', 1)) for view in views] == [
        (224, 1),
        (224, 1),
        (96, 6),
    ]
    assert cfg.optim_wrapper.optimizer.type == 'LARS'
    assert cfg.optim_wrapper.optimizer.lr == 4.8
    localize = hooks(cfg)['LocalizeHook']
    assert (localize.start_epoch, localize.interval) == (40, 20)


def test_a_long_run_of_a_vit_fits_itself_into_memory():
    cfg = recipe(10**6, 300, 'vit-ti16', epochs=300, gpu=True).config
    assert cfg.model.micro_batch_size == 'auto'
    assert cfg.optim_wrapper.optimizer.type == 'AdamW'
    assert cfg.optim_wrapper.optimizer.lr == pytest.approx(0.003 / 16, rel=0.01)


def test_a_network_with_batch_norm_gets_no_micro_batches():
    assert 'micro_batch_size' not in recipe(10**6, epochs=300, gpu=True).config.model


def test_options_of_the_backbone_change_what_is_derived_from_it():
    cfg = recipe().config
    assert cfg.model.neck.in_channels == 64
    assert cfg.model.backbone.base_channels == 8


def test_small_batches_learn_slower_by_the_root():
    rates = [
        recipe(batch_size=size).config.optim_wrapper.optimizer.lr for size in (64, 256)
    ]
    assert rates == [0.0025, 0.005]


def test_trained_weights_get_a_tenth_of_the_rate_and_early_boxes(tmp_path):
    (tmp_path / 'w.pth').write_bytes(b'')
    first, again = (
        recipe(side=100, **kwargs).config
        for kwargs in ({}, dict(init=str(tmp_path / 'w.pth'), prefix='encoder'))
    )
    rates = [cfg.optim_wrapper.optimizer.lr for cfg in (first, again)]
    assert rates[1] == pytest.approx(rates[0] / 10)
    assert hooks(again)['LocalizeHook'].start_epoch == 0
    start = hooks(again)['PretrainedBackboneHook']
    assert (start.checkpoint, start.prefix) == (str(tmp_path / 'w.pth'), 'encoder')


def test_the_latents_are_as_wide_as_a_frozen_teacher(tmp_path):
    (tmp_path / 'w.pth').write_bytes(b'')
    checkpoint = str(tmp_path / 'w.pth')
    cfg, rows = recipe(teacher='vit-ti16', teacher_checkpoint=checkpoint)
    why = {what: why for what, _, why in rows}
    assert 'no batch norm' in why['projector'] and 'batch norm' not in why['recipe']
    assert cfg.model.neck.out_channels == 192
    assert cfg.model.head.loss.tau_b == 0.05, 'fixed targets do not drift'
    assert cfg.model.teacher.type == 'mmbam.FrozenTeacher'
    # A multiple of the teacher's patches, at least four of them.
    assert cfg.train_dataloader.dataset.pipeline[1].views[0].size == 64


@pytest.mark.parametrize(
    'model', ['vit-ti16', 'timm:convnext_atto', 'timm:vit_tiny_patch16_224']
)
def test_other_networks_give_a_model_that_trains(model):
    cfg = recipe(side=64, model=model, epochs=1).config
    check_config(cfg)
    network = MODELS.build(cfg.model)
    size = cfg.train_dataloader.dataset.pipeline[1].views[0].size
    views = [torch.rand(3, 3, size, size) for _ in range(2)]
    loss = network.loss(views)['loss']
    loss.backward()
    assert torch.isfinite(loss)


def test_each_decision_has_a_reason():
    rows = recipe(side=100, epochs=100).rows
    assert all(len(row) == 3 and all(row) for row in rows)
    known = {row[0] for row in rows}
    assert {'views', 'teacher', 'projector', 'optimizer', 'ContrastiveCrop'} <= known
