"""The race gives each method five trials, judged by images held out from training."""

from __future__ import annotations

import argparse
import json
from unittest import mock

import pytest
from mmengine.model import revert_sync_batchnorm
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS

from benchmarks import race
from mmbam.comparison import Settings, load_method
from mmbam.comparison.config import run_config
from tests.helpers.folders import make_folders

SMALL = dict(size=16, batch_size=8, head_width=16, local_views=2)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp('data')
    make_folders(root)  # 3 classes, 8 images of each to train on, 5 to test
    return root


@pytest.mark.parametrize('name', race.OWN)
def test_every_setting_of_a_trial_changes_what_is_built(name, data):
    built = []
    for optimizer in race.OPTIMIZERS:
        for own in ({}, *race.OWN[name]):
            options = {name: race.options_of(optimizer, own)}
            settings = Settings(str(data), epochs=10, options=options, **SMALL)
            cfg = run_config(load_method(name), settings, 0, 10, 'unused')
            for key in own:
                first, *rest = key.removeprefix('model.').split('.')
                assert rest or first in cfg.model, 'a key that the method lacks'
            model = revert_sync_batchnorm(MODELS.build(cfg.model))
            made = build_optim_wrapper(model, cfg.optim_wrapper).optimizer
            assert type(made).__name__ == optimizer.split()[0]
            assert made.defaults['lr'] == float(optimizer.split()[1])
            built.append(cfg.pretty_text)
    assert len(set(built)) == len(race.OPTIMIZERS) * 3


def test_test_images_choose_nothing_and_a_failed_run_does_not_win(data, tmp_path):
    args = argparse.Namespace(
        data=data,
        methods=['simclr'],
        trials=1.0,
        finals=2.0,
        seeds=[0, 1],
        backbone='resnet',
        workers=0,
        amp=False,
        out=tmp_path,
    )
    (tmp_path / 'plan.json').write_text('{}')
    scores = {'LARS 0.4': 60.0, 'LARS 0.4, temperature 0.2': None}
    runs = []

    def compare(settings, names, seeds, out):
        runs.append((settings.data, settings.options['simclr'], list(seeds)))
        score = scores.get(out.name.partition(', ')[2], 50.0)
        history = [dict(epoch=3, seconds=60.0, knn=score, linear=score)]
        one = dict(error='not finite') if score is None else dict(history=history)
        return dict(
            runs=[dict(one, method=names[0], epochs=3, seed=seed) for seed in seeds]
        )

    plan = {'simclr': dict(epochs=3)}
    with (
        mock.patch.object(race, 'compare', compare),
        mock.patch.object(race, 'plan_epochs', lambda *_: plan),
    ):
        race.Race(args).race()
    trials, finals = runs[:5], runs[5:]
    assert {folder for folder, *_ in trials} == {str(data / 'train')}
    assert [seeds for *_, seeds in trials] == [[0]] * 5
    assert {folder for folder, *_ in finals} == {str(data)}
    assert [seeds for *_, seeds in finals] == [[0, 1]]
    best = race.options_of('LARS 0.4', {})
    assert all(options == best for _, options, _ in finals)
    found = json.loads((tmp_path / 'simclr.json').read_text())['trials']['simclr']
    assert found['best'] == 'LARS 0.4'
    assert found['trials']['LARS 0.4, temperature 0.2'] == 0.0
    assert (tmp_path / 'race.png').is_file()

    args.trials, runs[:] = 0, []
    with mock.patch.object(race, 'compare', compare):
        race.Race(args).race()
    won = race.options_of('LARS 0.4', {'model.head.temperature': 0.2})
    assert runs == [(str(data), won, [0, 1])], (
        'no trials, and what won them in the docs'
    )
