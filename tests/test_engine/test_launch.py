"""The command line's values reach the config; mistakes end in one sentence."""

from __future__ import annotations

from unittest import mock

import pytest
from mmengine.config import Config
from mmengine.hooks import LoggerHook

from mmbam.engine import launch, signals

CONFIG = """
default_scope = 'mmpretrain'
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.1))
test_dataloader = dict()
test_evaluator = dict(type='Accuracy')
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / 'small.py'
    path.write_text(CONFIG)
    return str(path)


def test_work_dir_comes_from_command_line_config_or_name(config, tmp_path):
    assert launch.load_config(config).work_dir == 'work_dirs/small'
    options = dict(work_dir='mine')
    assert launch.load_config(config, cfg_options=options).work_dir == 'mine'
    cfg = launch.load_config(config, 'given', options)
    assert cfg.work_dir == 'given'
    assert cfg.launcher == 'none'


def test_config_options_override(config):
    cfg = launch.load_config(config, cfg_options={'optim_wrapper.optimizer.lr': 3})
    assert cfg.optim_wrapper.optimizer == dict(type='SGD', lr=3)


def test_missing_files_are_named(config):
    with pytest.raises(FileNotFoundError, match='Config file not found: no.py'):
        launch.load_config('no.py')
    cfg = launch.load_config(config)
    with pytest.raises(FileNotFoundError, match='Checkpoint not found: no.pth'):
        launch.set_resume(cfg, 'no.pth')
    with pytest.raises(FileNotFoundError, match='Checkpoint not found: no.pth'):
        launch.set_test(cfg, 'no.pth')


def test_a_launcher_that_did_not_launch_is_named(config, monkeypatch):
    monkeypatch.delenv('RANK', raising=False)
    with pytest.raises(ValueError, match='pytorch needs .*: RANK, .*/dist_train.sh'):
        launch.load_config(config, launcher='pytorch')


@pytest.mark.parametrize(
    'rank, first, ends',
    [
        ('0', b'/sbin/init', True),  # torchrun has ended, and init took this one in
        ('0', b'python\0/usr/bin/torchrun\0train.py', False),  # as in a container
        (None, b'/sbin/init', False),  # not started by torchrun at all
    ],
)
def test_a_rank_ends_if_torchrun_has_ended(tmp_path, monkeypatch, rank, first, ends):
    for name in ('RANK', 'MMBAM_TORCHRUN_PID'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('LOCAL_RANK', '0')
    if rank:
        monkeypatch.setenv('RANK', rank)
    (tmp_path / 'cmdline').write_bytes(first)
    monkeypatch.setattr(signals, '_FIRST', tmp_path / 'cmdline', raising=False)
    monkeypatch.setattr(signals.os, 'getppid', lambda: 1)
    monkeypatch.setattr(signals.ctypes, 'CDLL', mock.Mock())
    signals.ctypes.CDLL.return_value.prctl.return_value = 0
    if ends:
        with pytest.raises(SystemExit, match='torchrun.* has ended'):
            launch.set_rank('pytorch')
    else:
        launch.set_rank('pytorch')


@pytest.mark.parametrize('scope', ['mmdet', 'mmseg'])
def test_dense_configs_check_the_dense_part(config, scope, monkeypatch):
    checked = []
    monkeypatch.setattr(launch, 'require_dense', checked.append)
    launch.load_config(config)
    launch.load_config(config, cfg_options=dict(default_scope=scope))
    assert checked == [scope]


@pytest.mark.parametrize(
    'device, before, after',
    [
        ('cuda', {}, dict(type='AmpOptimWrapper', loss_scale='dynamic')),
        (
            'cuda',
            dict(type='AmpOptimWrapper', dtype='bfloat16'),
            dict(type='AmpOptimWrapper', dtype='bfloat16'),
        ),
        ('cpu', {}, dict(type='mmbam.AutocastOptimWrapper')),
        (
            'cpu',
            dict(type='AmpOptimWrapper', dtype='float16', loss_scale=512.0),
            dict(type='mmbam.AutocastOptimWrapper'),
        ),
    ],
)
def test_amp(config, device, before, after, monkeypatch):
    monkeypatch.setattr(launch, 'get_device', lambda: device)
    cfg = launch.load_config(config, cfg_options=dict(optim_wrapper=before))
    launch.set_amp(cfg)
    cfg.optim_wrapper.pop('optimizer')
    assert cfg.optim_wrapper == after


def test_amp_does_not_replace_what_it_does_not_know(config):
    options = {'optim_wrapper.type': 'DeepSpeedOptimWrapper'}
    cfg = launch.load_config(config, cfg_options=options)
    with pytest.raises(ValueError, match='but got DeepSpeedOptimWrapper'):
        launch.set_amp(cfg)


def test_auto_scale_lr_needs_a_base(config):
    with pytest.raises(ValueError, match='base_batch_size.*small.py has none'):
        launch.set_auto_scale_lr(launch.load_config(config))
    options = {'auto_scale_lr.base_batch_size': 256}
    cfg = launch.load_config(config, cfg_options=options)
    launch.set_auto_scale_lr(cfg)
    assert cfg.auto_scale_lr == dict(base_batch_size=256, enable=True)


def test_resume_from_the_latest_or_from_a_file(config, tmp_path):
    cfg = launch.load_config(config)
    launch.set_resume(cfg, 'auto')
    assert (cfg.resume, cfg.load_from) == (True, None)
    checkpoint = tmp_path / 'epoch_1.pth'
    checkpoint.touch()
    launch.set_resume(cfg, str(checkpoint))
    assert (cfg.resume, cfg.load_from) == (True, str(checkpoint))


def test_testing_needs_something_to_test(config):
    cfg = launch.load_config(config, cfg_options=dict(test_dataloader=None))
    with pytest.raises(ValueError, match='small.py has no test_dataloader'):
        launch.set_test(cfg, 'https://somewhere/weights.pth')


def test_predictions_are_saved_beside_the_metrics(config):
    cfg = launch.load_config(config)
    with pytest.raises(ValueError, match='must end with .pkl'):
        launch.set_test(cfg, 'https://somewhere/weights.pth', 'predictions.json')
    launch.set_test(cfg, 'https://somewhere/weights.pth', 'predictions.pkl')
    assert [metric['type'] for metric in cfg.test_evaluator] == [
        'Accuracy',
        'DumpResults',
    ]


def test_processes_share_gradients_in_buckets_unless_the_config_says_how():
    cfg = Config(dict(launcher='pytorch', find_unused_parameters=True))
    launch.set_wrapper(cfg)
    assert cfg.model_wrapper_cfg.gradient_as_bucket_view
    assert cfg.model_wrapper_cfg.find_unused_parameters
    own = Config(dict(launcher='pytorch', model_wrapper_cfg=dict(type='Own')))
    launch.set_wrapper(own)
    assert own.model_wrapper_cfg == dict(type='Own')
    alone = Config(dict(launcher='none'))
    launch.set_wrapper(alone)
    assert 'model_wrapper_cfg' not in alone


def test_one_rank_writes_the_results_of_a_test(config, tmp_path, monkeypatch):
    """All ranks would write into one file, and the longer text leaves its end there."""
    written = []
    monkeypatch.setattr(
        LoggerHook, 'after_test_epoch', lambda *_, **__: written.append(1)
    )
    model = dict(type='mmpretrain.ImageClassifier', backbone=dict(type='LeNet5'))
    options = dict(model=model, optim_wrapper=None, test_cfg={}, log_level='ERROR')
    cfg = launch.load_config(config, str(tmp_path), options)
    runner = launch.build_runner(cfg)
    for is_main in (False, True, False):
        monkeypatch.setattr('mmengine.dist.utils.is_main_process', lambda v=is_main: v)
        runner.call_hook('after_test_epoch', metrics={})
    assert written == [1]
