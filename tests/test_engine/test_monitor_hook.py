"""Monitors: right figures, an alarm on each form of collapse, none on a healthy run."""

import json

import numpy as np
import pytest
import torch
from mmengine.runner import Runner
from skimage import data
from torch import nn

from mmbam.engine.hooks import MonitorHook
from mmbam.engine.hooks.collapse import CollapseAlarm
from mmbam.engine.hooks.monitor_hook import TrainingCollapsed
from mmbam.evaluation import pair_similarities, rankme
from mmbam.models import BAM
from mmbam.registry import MODELS


@MODELS.register_module(force=True)
class TinyConvNet(nn.Sequential):
    def __init__(self):
        layers = []
        for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
            layers += [nn.Conv2d(inputs, outputs, 3, 2, 1), nn.BatchNorm2d(outputs)]
            layers += [nn.ReLU()]
        super().__init__(*layers)


class Patches(torch.utils.data.Dataset):
    """Two views of patches of photographs, cheap enough to train on in seconds."""

    def __init__(self, size=2048):
        photos = [getattr(data, name)() for name in ('brick', 'grass', 'coins', 'moon')]
        self.photos, self.size = photos, size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        photo = self.photos[i % len(self.photos)]
        top, left = (rng.integers(side - 32) for side in photo.shape)
        views = []
        for _ in range(2):
            dy, dx = rng.integers(9, size=2)
            view = photo[top + dy : top + dy + 24, left + dx : left + dx + 24] / 127 - 1
            view = view * rng.uniform(0.7, 1.3) + rng.normal(0, 0.3)
            views.append(torch.from_numpy(view).float().expand(3, -1, -1))
        return dict(inputs=views, data_samples=0)


def train(work_dir, hooks, lr=1e-3, iterations=60, clip=None, **loss):
    model = BAM(
        backbone=dict(type='mmbam.TinyConvNet'),
        neck=dict(
            type='mmbam.BAMNeck', in_channels=64, hid_channels=128, out_channels=64
        ),
        head=dict(
            type='mmbam.BAMHead', loss=dict(type='mmbam.BAMLoss', num_views=2, **loss)
        ),
        teacher=dict(type='mmbam.EMATeacher', momentum=0.98),
        data_preprocessor=dict(type='mmpretrain.SelfSupDataPreprocessor'),
    )
    runner = Runner(
        model,
        work_dir=str(work_dir),
        train_dataloader=dict(
            batch_size=32,
            dataset=Patches(32 * iterations),
            sampler=dict(type='DefaultSampler', shuffle=False),
            collate_fn=dict(type='default_collate'),
        ),
        train_cfg=dict(by_epoch=True, max_epochs=1),
        optim_wrapper=dict(optimizer=dict(type='AdamW', lr=lr), clip_grad=clip),
        custom_hooks=hooks,
        default_hooks=dict(logger=dict(type='LoggerHook', interval=5)),
        experiment_name=f'{work_dir.parent.name}-{work_dir.name}',
        randomness=dict(seed=0),
        log_level='ERROR',
    )
    runner.train()
    return runner


def monitor(**kwargs):
    return dict(type='mmbam.MonitorHook', interval=5, patience=3, grace=15, **kwargs)


def test_a_healthy_run_logs_its_signs_and_raises_no_alarm(tmp_path):
    runner = train(tmp_path / 'run', [monitor()])
    log = next((tmp_path / 'run').rglob('vis_data/scalars.json')).read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    assert len(lines) == 12
    for line in lines:
        assert 1 < line['monitor/rankme'] <= 32
        assert line['monitor/positive_similarity'] > line['monitor/other_similarity']
        assert line['grad_norm'] > 0
    assert not list((tmp_path / 'run').glob('collapsed*'))
    assert runner.message_hub.get_scalar('train/monitor/rankme').data[0].size == 12


def test_the_signs_are_those_of_the_latents_and_gradients(tmp_path):
    """Of the first step, computed again outside of the hook."""
    seen = {}

    class Repeat(MonitorHook):
        def _keep_latents(self, module, args):
            super()._keep_latents(module, args)
            seen.setdefault('z', args[0].detach().clone())

        def _measure_gradients(self, optimizer, args, kwargs):
            super()._measure_gradients(optimizer, args, kwargs)
            parameters = optimizer.param_groups[0]['params']
            norm = nn.utils.clip_grad_norm_(parameters, float('inf'))
            seen.setdefault('norm', norm.item())

    runner = train(tmp_path / 'run', [Repeat(interval=1)], iterations=1)
    z = seen['z'].view(2, 32, -1)
    expected = dict(
        zip(('positive_similarity', 'other_similarity'), pair_similarities(z)),
        rankme=rankme(z[0]),
    )
    for name, value in expected.items():
        logged = runner.message_hub.get_scalar(f'train/monitor/{name}').current()
        assert logged == pytest.approx(value)
    logged = runner.message_hub.get_scalar('train/grad_norm').current()
    assert logged == pytest.approx(seen['norm'])


def test_training_is_the_same_with_and_without(tmp_path):
    first, second = (
        train(tmp_path / name, hooks, iterations=6).model.state_dict()
        for name, hooks in (('with', [monitor()]), ('without', []))
    )
    assert all(torch.equal(first[name], second[name]) for name in second)


@pytest.mark.parametrize(
    'change',
    [dict(balanced=False), dict(tau_b=0.3)],
    ids=['balancing off', 'tau_b too high'],
)
def test_features_that_become_constant_stop_the_run(tmp_path, change):
    with pytest.raises(TrainingCollapsed) as error:
        train(tmp_path / 'run', [monitor()], iterations=200, **change)
    sentence = str(error.value)
    assert 'features are constant' in sentence and 'since iteration' in sentence
    assert 'tau_b' in sentence and 'learning rate' in sentence and 'batch' in sentence
    (saved,) = (tmp_path / 'run').glob('collapsed_iter_*.pth')
    assert saved.name in sentence


@pytest.mark.parametrize('lr', [1e3, 1e30])
def test_an_absurd_learning_rate_stops_the_run(tmp_path, lr):
    with pytest.raises(TrainingCollapsed, match='since iteration .*learning rate'):
        train(tmp_path / 'run', [monitor()], lr=lr)


def test_a_run_may_go_on_after_the_alarm(tmp_path):
    train(tmp_path / 'run', [monitor(on_collapse='warn')], lr=1e30, iterations=30)
    assert len(list((tmp_path / 'run').glob('collapsed_iter_*.pth'))) == 1


def test_with_clipping_the_norm_is_that_before_it(tmp_path):
    clip = dict(max_norm=1e-9)
    runner = train(tmp_path / 'run', [monitor()], iterations=5, clip=clip)
    assert runner.message_hub.get_scalar('train/grad_norm').current() > 1e-6


def test_a_model_without_latents_is_refused():
    with pytest.raises(ValueError, match='loss_module.*Linear has none'):
        MonitorHook._loss_module(nn.Linear(1, 1))


@pytest.mark.parametrize(
    'argument', [dict(interval=0), dict(patience=0), dict(on_collapse='ignore')]
)
def test_wrong_arguments_are_named(argument):
    with pytest.raises(ValueError, match=f'{next(iter(argument))} of MonitorHook'):
        MonitorHook(**argument)


def alarm():
    return CollapseAlarm(patience=2, grace=10, max_similarity=0.99, min_gap=0.01)


HEALTHY = dict(loss=1.0, grad_norm=1.0, positive=0.9, other=0.5)


@pytest.mark.parametrize(
    'sign, change',
    [
        ('gradient', dict(grad_norm=float('inf'))),
        ('constant', dict(positive=1.0, other=0.995)),
        ('uniform', dict(positive=0.1, other=0.1)),
    ],
)
def test_a_sign_must_last(sign, change):
    watch = alarm()
    assert watch.check(20, **{**HEALTHY, **change}) is None
    assert watch.check(25, **HEALTHY) is None  # gone again: counted anew
    assert watch.check(30, **{**HEALTHY, **change}) is None
    assert watch.check(35, **{**HEALTHY, **change}) == sign
    assert 'since iteration 30' in watch.describe(sign, 0.05, 0.1, 256)


def test_a_loss_that_is_not_finite_needs_no_second_look():
    assert alarm().check(1, **{**HEALTHY, 'loss': float('nan')}) == 'loss'


def test_a_random_network_gets_time():
    watch = alarm()
    for iteration in range(1, 11):
        assert watch.check(iteration, 1.0, None, positive=1.0, other=1.0) is None
