"""Configs of any project get loops and hooks that can go on anywhere."""

from mmengine.config import Config

from mmbam.engine.resuming import set_reliable
from tests.helpers.run import ROOT

SEEDING = dict(type='mmbam.SeedByEpochHook')


def reliable(**cfg):
    cfg = Config(cfg)
    set_reliable(cfg)
    return cfg


def test_loops_and_hooks_of_mmengine_are_replaced():
    cfg = reliable(train_cfg=dict(by_epoch=True, max_epochs=3))
    assert cfg.train_cfg == dict(type='mmbam.EpochLoop', max_epochs=3)
    assert cfg.default_hooks.checkpoint == dict(type='mmbam.CheckpointHook', interval=1)
    assert cfg.custom_hooks == [SEEDING]
    cfg = reliable(
        train_cfg=dict(type='IterBasedTrainLoop', max_iters=3),
        default_hooks=dict(checkpoint=dict(type='CheckpointHook', by_epoch=False)),
        custom_hooks=[dict(type='Other')],
    )
    assert cfg.train_cfg == dict(type='mmbam.IterLoop', max_iters=3)
    assert cfg.default_hooks.checkpoint.type == 'mmbam.CheckpointHook'
    assert cfg.custom_hooks == [SEEDING, dict(type='Other')]


def test_what_the_user_chose_stays():
    own = dict(
        train_cfg=dict(type='OwnLoop', max_epochs=3),
        default_hooks=dict(checkpoint=None),
        custom_hooks=[dict(type='Other')],
    )
    assert reliable(**own)._cfg_dict == own
    cfg = reliable(
        train_cfg=dict(max_epochs=3), custom_hooks=[dict(SEEDING, priority=1)]
    )
    assert cfg.custom_hooks == [dict(SEEDING, priority=1)]


def test_recipes_save_every_15_minutes():
    paths = [*ROOT.glob('configs/bam/*.py'), *ROOT.glob('configs/benchmarks/l*/*.py')]
    assert len(paths) > 10
    for path in paths:
        checkpoint = Config.fromfile(path).default_hooks.checkpoint
        assert checkpoint.type == 'mmbam.CheckpointHook' and checkpoint.minutes == 15
