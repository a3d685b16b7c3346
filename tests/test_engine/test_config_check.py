"""Configs are checked before anything is built, and good ones pass."""

from __future__ import annotations

import re
from pathlib import Path

import mmdet
import mmpretrain
import mmseg
import pytest
from mmengine.config import Config

from mmbam.engine.config_check import check_config, schedule_warnings
from mmbam.utils.config import read_config
from mmbam.utils.errors import InputError
from tests.helpers.run import ROOT

OURS = sorted(
    path
    for path in (ROOT / 'configs').rglob('*.py')
    if '_base_' not in path.parts and 'compare' not in path.parts
)


@pytest.mark.parametrize('path', OURS, ids=lambda p: str(p.relative_to(ROOT)))
def test_configs_of_this_project_pass(path):
    check_config(read_config(path))


@pytest.mark.parametrize('project', [mmpretrain, mmdet, mmseg])
def test_configs_of_other_projects_pass(project):
    folder = Path(project.__file__).parent / '.mim' / 'configs'
    paths = [p for p in sorted(folder.rglob('*.py')) if '_base_' not in p.parts]
    for path in paths[::40]:
        try:
            check_config(read_config(path))
        except InputError as error:
            # A few cannot be read, lack a part of val_* or a whole model: mmengine
            # refuses them as well.
            known = 'cannot be read|belong together|must have model'
            assert re.search(known, str(error)), path


def a_config(**changes) -> Config:
    return Config(
        dict(
            model=dict(type='mmbam.BAM'),
            train_dataloader=dict(batch_size=2, dataset=dict(type='X')),
            train_cfg=dict(max_epochs=10),
            optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.1)),
            **changes,
        )
    )


def test_variables_of_the_user_are_allowed():
    mine = dict(data_root='x', train_pipeline=[], mode='fast', my_lr=0.1, backbone={})
    check_config(a_config(**mine))


def test_a_misspelled_key_is_named_with_the_right_one():
    with pytest.raises(InputError, match="'optim_wraper'.*'optim_wrapper'"):
        check_config(a_config(optim_wraper=dict()))


def test_nan_is_refused_anywhere():
    with pytest.raises(InputError, match='custom_hooks.0.some.value must be a number'):
        check_config(a_config(custom_hooks=[dict(some=dict(value=float('nan')))]))


LINEAR = dict(type='LinearLR', begin=0)
COSINE = dict(type='CosineAnnealingLR')


@pytest.mark.parametrize(
    'schedules, sentence',
    [
        ([dict(LINEAR, end=2), dict(COSINE, begin=2, end=10)], None),
        ([dict(COSINE, T_max=10)], None),
        ([dict(LINEAR, end=50, by_epoch=False)], 'after 50% of the run'),
        ([dict(LINEAR, end=20)], r'\(LinearLR\) ends after 20 epochs, .* has 10'),
        ([dict(COSINE, T_max=30)], 'ends after 30 epochs'),
        ([dict(LINEAR, end=200, by_epoch=False)], 'ends after 200 iterations'),
        (dict(LINEAR, end=5), 'after 50% of the run'),
        ([], None),
        (None, None),
    ],
)
def test_a_schedule_that_does_not_fit_is_mentioned(schedules, sentence):
    cfg = Config(dict(param_scheduler=schedules))
    warnings = schedule_warnings(cfg, max_epochs=10, max_iters=100)
    if sentence is None:
        assert not warnings
    else:
        (warning,) = warnings
        assert re.search(sentence, warning)
