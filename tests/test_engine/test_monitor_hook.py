"""Monitors: right figures, an alarm on each form of collapse, none on a healthy run."""

import json
import re
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.dist import all_reduce, get_dist_info
from mmengine.logging import MessageHub
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner
from skimage import data
from torch import nn

from mmbam.engine.hooks import MonitorHook
from mmbam.engine.hooks.collapse import CollapseAlarm, Signs
from mmbam.engine.hooks.monitor_hook import TrainingCollapsed, _uniform_loss
from mmbam.evaluation import pair_similarities, rankme
from mmbam.models import BAM, BAMLoss
from mmbam.peers import DINOLoss
from mmbam.registry import MODELS
from tests.helpers.distributed import run_ranks


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


def train(work_dir, hooks, lr=1e-3, iterations=60, clip=None, ema=True, seed=0, **loss):
    """One of the paper's two recipes: a moving average, or batch norm without one."""
    torch.manual_seed(seed)  # the runner's own seed is too late for the network
    model = BAM(
        backbone=dict(type='mmbam.TinyConvNet'),
        neck=dict(
            type='mmbam.BAMNeck',
            in_channels=64,
            hid_channels=128,
            out_channels=64,
            norm_cfg=None if ema else dict(type='BN1d'),
        ),
        head=dict(
            type='mmbam.BAMHead', loss=dict(type='mmbam.BAMLoss', num_views=2, **loss)
        ),
        teacher=dict(type='mmbam.EMATeacher', momentum=0.98) if ema else None,
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
        randomness=dict(seed=seed),
        log_level='ERROR',
    )
    runner.train()
    return runner


def monitor(ema=True, **kwargs):
    """Behind batch norm a random network takes longer to beat guessing."""
    grace = 15 if ema else 100
    return dict(type='mmbam.MonitorHook', interval=5, patience=3, grace=grace, **kwargs)


RECIPES = pytest.mark.parametrize('ema', [True, False], ids=['teacher', 'batch norm'])


@RECIPES
def test_a_healthy_run_logs_its_signs_and_raises_no_alarm(tmp_path, ema):
    iterations = 60 if ema else 200
    runner = train(tmp_path / 'run', [monitor(ema)], iterations=iterations, ema=ema)
    log = next((tmp_path / 'run').rglob('vis_data/scalars.json')).read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    checks = iterations // 5
    assert len(lines) == checks
    for line in lines:
        assert 1 < line['monitor/rankme'] <= 32
        assert 1 < line['monitor/backbone_rankme'] <= 32
        assert line['monitor/positive_similarity'] > line['monitor/other_similarity']
        assert line['grad_norm'] > 0
    assert not list((tmp_path / 'run').glob('collapsed*'))
    scalar = runner.message_hub.get_scalar('train/monitor/rankme')
    assert scalar.data[0].size == checks


def test_the_signs_are_those_of_the_latents_and_gradients(tmp_path):
    """Of the first step, computed again outside of the hook."""
    seen = {}

    class Repeat(MonitorHook):
        def _keep_latents(self, module, args):
            super()._keep_latents(module, args)
            seen.setdefault('z', args[0].detach().clone())

        def _keep_embeddings(self, module, args):
            super()._keep_embeddings(module, args)
            seen.setdefault('h', args[0].detach().clone())

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
        backbone_rankme=rankme(seen['h'][:32]),
    )
    for name, value in expected.items():
        logged = runner.message_hub.get_scalar(f'train/monitor/{name}').current()
        assert logged == pytest.approx(value)
    logged = runner.message_hub.get_scalar('train/grad_norm').current()
    assert logged == pytest.approx(seen['norm'])


def test_embeddings_are_those_of_the_first_views(tmp_path):
    # Views of another size go through the projector in a call of their own.
    hook = MonitorHook(interval=1)
    model = BAM(
        backbone=dict(type='mmbam.TinyConvNet'),
        neck=dict(type='mmbam.BAMNeck', in_channels=64, hid_channels=8, out_channels=8),
        head=dict(type='mmbam.BAMHead', loss=dict(type='mmbam.BAMLoss', num_views=4)),
        data_preprocessor=dict(type='mmpretrain.SelfSupDataPreprocessor'),
    )
    hook.before_train(SimpleNamespace(model=model, optim_wrapper=sgd(model)))
    hook.before_train_iter(SimpleNamespace(iter=0), 0)
    views = [torch.randn(3, 3, size, size) for size in (24, 24, 16, 16)]
    model(views, mode='loss')
    with torch.no_grad():
        first = model.backbone(torch.cat(views[:2])).mean(dim=(2, 3))
    torch.testing.assert_close(hook._embeddings, first)


def sgd(model):
    return OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1))


def test_training_is_the_same_with_and_without(tmp_path):
    first, second = (
        train(tmp_path / name, hooks, iterations=6).model.state_dict()
        for name, hooks in (('with', [monitor()]), ('without', []))
    )
    assert all(torch.equal(first[name], second[name]) for name in second)


@pytest.mark.parametrize(
    'ema, change, sign',
    [
        (True, dict(balanced=False), 'targets are empty'),
        (True, dict(tau_b=0.1), 'targets are empty|features are constant'),
        (True, dict(tau_b=0.3), 'features are constant'),
        # Batch norm keeps latents apart, whatever becomes of what they say.
        (False, dict(balanced=False), 'targets are empty'),
        (False, dict(tau_b=0.1), 'targets are empty'),
        (False, dict(tau_b=0.3), 'attention is as good as guessed'),
    ],
)
def test_targets_that_teach_nothing_stop_the_run(tmp_path, ema, change, sign):
    with pytest.raises(TrainingCollapsed) as error:
        train(tmp_path / 'run', [monitor(ema)], iterations=200, ema=ema, **change)
    sentence = str(error.value)
    assert re.search(f'({sign}).*since iteration', sentence)
    assert 'tau_b' in sentence and 'learning rate' in sentence and 'batch' in sentence
    (saved,) = (tmp_path / 'run').glob('collapsed_iter_*.pth')
    assert saved.name in sentence


@RECIPES
@pytest.mark.parametrize('lr', [1.0, 1e3, 1e30])
def test_an_absurd_learning_rate_stops_the_run(tmp_path, ema, lr):
    with pytest.raises(TrainingCollapsed, match='since iteration .*learning rate'):
        train(tmp_path / 'run', [monitor(ema)], lr=lr, iterations=200, ema=ema)


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
    with pytest.raises(
        ValueError, match=f'MonitorHook: {next(iter(argument))} must be'
    ):
        MonitorHook(**argument)


def alarm():
    return CollapseAlarm(
        patience=2, grace=10, max_similarity=0.99, min_gap=0.01, min_sharpness=0.05
    )


def signs(**change):
    healthy = dict(loss=1.0, uniform_loss=2.0, positive=0.9, other=0.5, sharpness=0.2)
    return Signs(**{**healthy, 'grad_norm': 1.0, **change})


@pytest.mark.parametrize(
    'sign, change',
    [
        ('gradient', dict(grad_norm=float('inf'))),
        ('constant', dict(positive=1.0, other=0.995)),
        ('uniform', dict(positive=0.1, other=0.1)),
        ('guessing', dict(loss=2.0)),
        ('empty', dict(sharpness=-0.1)),
    ],
)
def test_a_sign_must_last(sign, change):
    watch = alarm()
    assert watch.check(20, signs(**change)) is None
    assert watch.check(25, signs()) is None  # gone again: counted anew
    assert watch.check(30, signs(**change)) is None
    assert watch.check(35, signs(**change)) == sign
    assert 'since iteration 30' in watch.describe(sign, 0.05, 0.1, 256)


def test_a_loss_that_is_not_finite_needs_no_second_look():
    assert alarm().check(1, signs(loss=float('nan'))) == 'loss'


def test_a_random_network_gets_time():
    watch = alarm()
    bad = signs(loss=3.0, positive=1.0, other=1.0, sharpness=0.0, grad_norm=None)
    for iteration in range(1, 11):
        assert watch.check(iteration, bad) is None


def test_targets_of_a_frozen_teacher_may_be_flat():
    watch = alarm()
    for iteration in range(20, 30):
        assert watch.check(iteration, signs(sharpness=None)) is None


@pytest.mark.parametrize('mask', ['exclude', 'zero', None])
@pytest.mark.parametrize('global_norm', [True, False])
def test_guessing_costs_what_latents_without_direction_cost(mask, global_norm):
    loss = BAMLoss(4, positive_mask=mask, global_norm=global_norm)
    value = loss(torch.zeros(4 * 6, 8)).item()
    assert _uniform_loss(loss, 6) == pytest.approx(value)


def test_a_method_without_attention_is_monitored_by_the_other_signs():
    """DINO: no entropies of A and B, no loss of uniform attention."""
    loss = DINOLoss(6, num_views=2)
    logged, shown = monitored([12], lambda z: loss(z, z.detach()), loss)
    assert logged['monitor/positive_similarity'] < 1 < logged['monitor/rankme'] <= 6
    assert shown['sharpness'] is None and shown['uniform_loss'] is None
    assert alarm().check(20, Signs(**shown)) is None
    watch = alarm()
    constant = Signs(**{**shown, 'positive': 1.0, 'other': 1.0})
    assert [watch.check(i, constant) for i in (20, 30)] == [None, 'constant']


class Probe(nn.Module):
    """The parts of a model that MonitorHook uses, and gradients shared by hand."""

    def __init__(self, loss_module=None):
        super().__init__()
        torch.manual_seed(0)
        self.neck = nn.Linear(8, 6).double()
        self.head = nn.Module()
        self.head.loss_module = loss_module or BAMLoss(num_views=2)


def monitored(sizes, call=None, loss_module=None):
    """Scalars that the hook logs of a step, and what the alarm is shown."""
    rank, _ = get_dist_info()
    views = torch.randn(2, sum(sizes), 8, generator=torch.Generator().manual_seed(1))
    first = sum(sizes[:rank])
    mine = views[:, first : first + sizes[rank]].flatten(0, 1).double()
    model, shown = Probe(loss_module), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    runner = SimpleNamespace(
        model=model,
        iter=0,
        message_hub=MessageHub.get_instance(f'probe{rank}{len(sizes)}{call}'),
        optim_wrapper=SimpleNamespace(optimizer=optimizer, clip_grad_kwargs={}),
    )
    hook = MonitorHook(interval=1)
    hook.alarm.check = lambda iteration, signs: shown.append(signs)
    hook.before_train(runner)
    hook.before_train_iter(runner, 0)
    loss = (call or model.head.loss_module)(model.neck(mine))
    loss.backward()
    for parameter in model.parameters():
        all_reduce(parameter.grad, 'mean')
    optimizer.step()
    outputs = dict(loss=loss, **model.head.loss_module.stats)
    hook.after_train_iter(runner, 0, outputs=outputs)
    names = ('rankme', 'backbone_rankme', 'positive_similarity', 'other_similarity')
    names = [f'monitor/{name}' for name in names] + ['grad_norm']
    logged = {
        name: runner.message_hub.get_scalar(f'train/{name}').current() for name in names
    }
    return logged, asdict(shown[0])


def test_two_ranks_see_the_signs_of_one():
    logged, shown = monitored([12])
    for other_logged, other_shown in run_ranks(monitored, 2, [8, 4]):
        assert other_logged == pytest.approx(logged, rel=1e-6)
        assert other_shown == pytest.approx(shown, rel=1e-6)
