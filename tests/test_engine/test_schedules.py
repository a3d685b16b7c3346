"""Schedules of a recipe follow the number of epochs of a command line."""

import pytest

from mmbam.engine.schedules import rescale_schedules
from mmbam.utils.config import read_config
from tests.helpers.run import ROOT

RECIPE = 'mmbam::bam/vit-s16_300e.py'


def rescaled(options, path=RECIPE):
    cfg = read_config(path, options)
    return cfg, rescale_schedules(cfg, path, options)


def spans(cfg):
    return [(s.get('begin', 0), s.get('end')) for s in cfg.param_scheduler]


@pytest.mark.parametrize('key', ['train_cfg.max_epochs', 'max_epochs'])
@pytest.mark.parametrize(
    'epochs, expected',
    [
        (150, [(0, 20), (20, 150), (0, 150)]),
        (600, [(0, 80), (80, 600), (0, 600)]),
        (6, [(0, 1), (1, 6), (0, 6)]),
        (2, [(0, 1), (1, 2), (0, 2)]),
        (1, [(0, 1), (0, 1), (0, 1)]),
    ],
)
def test_warm_up_and_end_keep_their_shares(key, epochs, expected):
    cfg, said = rescaled({key: epochs})
    assert cfg.train_cfg.max_epochs == epochs
    assert spans(cfg) == expected
    assert 'made for 300 epochs' in said and f'{expected[0][1]}' in said


STEPS = """
train_cfg = dict(type='mmbam.EpochLoop', max_epochs=10)
param_scheduler = [
    dict(type='LinearLR', by_epoch=False, begin=0, end=8),
    dict(type='CosineAnnealingLR', by_epoch=False, begin=8, end={end}),
]
"""


@pytest.mark.parametrize(
    'end, expected, words',
    [
        (80, [(0, 4), (4, 40)], 'shares of 5, by step: LinearLR 0 to 4'),
        (81, [(0, 8), (8, 81)], None),  # no whole number of steps in an epoch
    ],
)
def test_a_config_of_mmbam_pretrain_is_in_steps(tmp_path, end, expected, words):
    path = tmp_path / 'config.py'
    path.write_text(STEPS.replace('{end}', str(end)))
    cfg, said = rescaled({'train_cfg.max_epochs': 5}, path)
    assert spans(cfg) == expected
    assert words in said if words else said is None


def test_a_warm_up_alone_is_not_taken_for_the_whole_run(tmp_path):
    path = tmp_path / 'config.py'
    warm_up = STEPS.replace("    dict(type='CosineAnnealingLR'", "    # dict('")
    path.write_text(warm_up.replace('end=8', 'end=500'))
    cfg, said = rescaled({'train_cfg.max_epochs': 5}, path)
    assert spans(cfg) == [(0, 500)] and said is None


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'train_cfg.max_epochs': 300},
        {'train_cfg.max_epochs': 6, 'param_scheduler.0.end': 2},
        {'optim_wrapper.optimizer.lr': 0.1},
    ],
)
def test_schedules_stay_if_the_options_ask_for_nothing_else(options):
    expected = spans(read_config(RECIPE, options))
    cfg, said = rescaled(options)
    assert said is None and spans(cfg) == expected


@pytest.mark.parametrize(
    'change',
    [
        'train_cfg = dict(max_epochs=299)',  # does not end where its schedules do
        'param_scheduler = dict(type="ConstantLR")',  # no list: inherited keys stay
    ],
)
def test_a_config_with_a_length_of_its_own_is_left_alone(tmp_path, change):
    path = tmp_path / 'config.py'
    path.write_text(
        f'_base_ = "{RECIPE}"\n' + change.replace('dict(t', 'dict(_delete_=True, t')
    )
    before = read_config(path).param_scheduler
    cfg, said = rescaled({'train_cfg.max_epochs': 30}, path)
    assert said is None and cfg.param_scheduler == before


def test_configs_without_anything_of_ours_are_left_alone(tmp_path):
    path = tmp_path / 'config.py'
    path.write_text(
        'train_cfg = dict(by_epoch=True, max_epochs=10)\n'
        'param_scheduler = [dict(type="CosineAnnealingLR", T_max=10, end=10)]\n'
    )
    assert rescaled({'train_cfg.max_epochs': 5}, path)[1] is None
    path.write_text(path.read_text() + 'model = dict(type="mmbam.BAM")\n')
    cfg, said = rescaled({'train_cfg.max_epochs': 5}, path)
    assert cfg.param_scheduler == [
        dict(type='CosineAnnealingLR', T_max=5, begin=0, end=5)
    ]
    assert said.endswith('CosineAnnealingLR 0 to 5.')


def test_every_recipe_can_be_shortened():
    """Or it says itself that its schedules do not end with it."""
    found = 0
    for path in sorted(ROOT.glob('configs/bam/**/*.py')):
        cfg, said = rescaled({'train_cfg.max_epochs': 10}, path)
        ends = {s.end for s in cfg.param_scheduler}
        assert said and max(ends) == 10, path
        found += 1
    assert found > 10
