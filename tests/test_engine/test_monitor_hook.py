"""Monitors: right figures, an alarm in a dead run, none in a healthy one."""

import json
import logging
import math
import re
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dist import all_reduce, get_dist_info
from mmengine.hooks import Hook
from mmengine.logging import MessageHub
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner
from skimage import data
from torch import nn

from mmbam.engine.hooks import MonitorHook
from mmbam.engine.hooks.collapse import (
    CollapseAlarm,
    HealthyCheckpoint,
    Signs,
    find_sign,
)
from mmbam.engine.hooks.monitor_hook import TrainingCollapsed
from mmbam.engine.hooks.signs import uniform_entropies
from mmbam.evaluation import pair_similarities, rankme
from mmbam.models import BAM, BAMLoss
from mmbam.peers import DINOLoss
from mmbam.registry import MODELS
from tests.helpers.distributed import run_ranks
from tests.helpers.tiny import bam_config, make_views


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


def train(
    work_dir,
    hooks,
    lr=1e-3,
    iterations=60,
    clip=None,
    ema=True,
    seed=0,
    save=None,
    **loss,
):
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
        default_hooks=dict(
            logger=dict(type='LoggerHook', interval=5),
            checkpoint=dict(type='CheckpointHook', max_keep_ckpts=1, **(save or {})),
        ),
        experiment_name=f'{work_dir.parent.name}-{work_dir.name}',
        randomness=dict(seed=seed),
        log_level='ERROR',
    )
    runner.train()
    return runner


def monitor(**kwargs):
    return dict(type='mmbam.MonitorHook', interval=5, **kwargs)


RECIPES = pytest.mark.parametrize('ema', [True, False], ids=['teacher', 'batch norm'])


@RECIPES
def test_a_healthy_run_logs_its_signs_and_raises_no_alarm(tmp_path, ema):
    iterations = 110
    runner = train(tmp_path / 'run', [monitor()], iterations=iterations, ema=ema)
    log = next((tmp_path / 'run').rglob('vis_data/scalars.json')).read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    checks = iterations // 5
    assert len(lines) == checks
    for line in lines:
        assert 1 < line['monitor/rankme'] <= 32
        assert 1 < line['monitor/backbone_rankme'] <= 32
        assert line['monitor/positive_similarity'] > line['monitor/other_similarity']
        assert line['grad_norm'] > 0
    assert not list((tmp_path / 'run').glob('healthy*'))
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
        uniform_entropy=math.log(2 * 31),  # the other images, in two views
    )
    for name, value in expected.items():
        logged = runner.message_hub.get_scalar(f'train/monitor/{name}').current()
        assert logged == pytest.approx(value)
    logged = runner.message_hub.get_scalar('train/grad_norm').current()
    assert logged == pytest.approx(seen['norm'])


def test_embeddings_are_those_of_the_first_view(tmp_path):
    # Views of another size go through the projector in a call of their own.
    hook = MonitorHook(interval=1)
    model = BAM(
        backbone=dict(type='mmbam.TinyConvNet'),
        neck=dict(type='mmbam.BAMNeck', in_channels=64, hid_channels=8, out_channels=8),
        head=dict(type='mmbam.BAMHead', loss=dict(type='mmbam.BAMLoss', num_views=4)),
        data_preprocessor=dict(type='mmpretrain.SelfSupDataPreprocessor'),
    )
    runner = SimpleNamespace(model=model, optim_wrapper=sgd(model), max_iters=1)
    hook.before_train(runner)
    hook.before_train_iter(SimpleNamespace(iter=0), 0)
    views = [torch.randn(3, 3, size, size) for size in (24, 24, 16, 16)]
    model(views, mode='loss')
    with torch.no_grad():
        first = model.backbone(torch.cat(views[:2])).mean(dim=(2, 3))[:3]
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
    'ema, change',
    [
        (True, dict(balanced=False)),
        (True, dict(tau_b=0.3)),
        # Batch norm keeps latents apart, whatever becomes of what they say.
        (False, dict(balanced=False)),
        (False, dict(tau_b=0.3)),
    ],
)
def test_targets_that_teach_nothing_stop_the_run(tmp_path, ema, change):
    with pytest.raises(TrainingCollapsed) as error:
        train(tmp_path / 'run', [monitor()], iterations=200, ema=ema, **change)
    sentence = str(error.value)
    assert re.search('targets (say nothing|are empty).*since iteration', sentence)
    assert 'tau_b' in sentence and 'learning rate' in sentence and 'batch' in sentence
    assert sentence.endswith('on_collapse=warn.')


class Poison(Hook):
    """Makes a gradient or the weights useless after some iterations."""

    priority = 'HIGH'

    def __init__(self, iteration, weights=False):
        self.iteration, self.weights = iteration, weights

    def before_train(self, runner):
        parameter = next(runner.model.parameters())
        if not self.weights:
            parameter.register_hook(lambda grad: self.spoil(runner, grad))

    def after_train_iter(self, runner, *args, **kwargs):
        if self.weights:
            self.spoil(runner, next(runner.model.parameters()).data)

    def spoil(self, runner, tensor):
        if runner.iter + 1 >= self.iteration:
            tensor.fill_(float('nan'))
        return tensor


@pytest.mark.parametrize('clip', [None, dict(max_norm=0.3)])
@pytest.mark.parametrize('save', [dict(interval=4), dict(interval=7)])
def test_gradients_that_are_not_finite_stop_before_a_checkpoint(tmp_path, clip, save):
    """The 7th iteration saves, too, but not what it has made."""
    save = dict(by_epoch=False, **save)
    hooks = [Poison(7), monitor()]
    with pytest.raises(TrainingCollapsed, match='Gradients are not finite at it.* 7'):
        train(tmp_path / 'run', hooks, iterations=20, clip=clip, save=save)
    saved = sorted(path.name for path in (tmp_path / 'run').glob('*.pth'))
    assert saved == (
        ['healthy_iter_4.pth', 'iter_4.pth'] if save['interval'] == 4 else []
    )


@pytest.mark.parametrize('by_epoch', [True, False])
def test_weights_that_are_not_finite_are_not_saved(tmp_path, by_epoch):
    """Found before the checkpoint of an epoch, or of an iteration."""
    hooks = [Poison(6, weights=True), monitor()]
    save = dict(interval=1 if by_epoch else 3, by_epoch=by_epoch)
    with pytest.raises(TrainingCollapsed, match='Weights are not finite'):
        train(tmp_path / 'run', hooks, iterations=6, save=save)
    for path in (tmp_path / 'run').glob('*.pth'):
        weights = torch.load(path, map_location='cpu')['state_dict'].values()
        assert all(value.isfinite().all() for value in weights)


@RECIPES
@pytest.mark.parametrize('lr', [1e3, 1e30])
def test_an_absurd_learning_rate_stops_the_run(tmp_path, ema, lr):
    with pytest.raises(TrainingCollapsed, match='learning rate'):
        train(tmp_path / 'run', [monitor()], lr=lr, iterations=200, ema=ema)


def test_the_healthy_checkpoint_outlives_a_run_that_goes_on(tmp_path):
    """Every fourth iteration replaces the one checkpoint that is kept."""
    hooks = [Poison(7), monitor(on_collapse='warn')]
    save = dict(by_epoch=False, interval=4)
    train(tmp_path / 'run', hooks, iterations=20, save=save)
    saved = {path.name for path in (tmp_path / 'run').glob('*.pth')}
    assert saved == {'healthy_iter_4.pth', 'iter_20.pth'}
    (log,) = (tmp_path / 'run').rglob('*.log')
    alarms = re.findall(r'Gradients are not finite at iteration (\d+)', log.read_text())
    assert alarms == ['7', '8', '10', '14']


def test_a_loss_scaler_may_skip_steps(tmp_path):
    hook = MonitorHook()
    runner = SimpleNamespace(
        optim_wrapper=SimpleNamespace(loss_scaler=None, get_lr=lambda: dict(lr=[0.1])),
        iter=5,
        cfg={},
        message_hub=MessageHub.get_instance('scaler'),
        logger=logging.getLogger('scaler'),
    )
    for times in range(1, 32):
        hook._refuse(runner, 'Gradients are not finite', times)
    with pytest.raises(TrainingCollapsed, match='Gradients are not finite'):
        hook._refuse(runner, 'Gradients are not finite', 32)


def test_the_sentence_names_the_option_of_this_config(tmp_path):
    hooks = [dict(type='mmbam.SeedByEpochHook'), dict(type='mmbam.MonitorHook')]
    runner = SimpleNamespace(
        cfg=Config(dict(custom_hooks=hooks)),
        logger=logging.getLogger('option'),
        message_hub=MessageHub('option'),
        iter=0,
    )
    with pytest.raises(TrainingCollapsed, match='custom_hooks.1.on_collapse=warn'):
        MonitorHook()._say(runner, 'Dead.', stop=True)
    changed = Config(dict(custom_hooks=hooks))
    changed.merge_from_dict({'custom_hooks.1.on_collapse': 'warn'})
    assert changed.custom_hooks[1].on_collapse == 'warn'


def test_with_clipping_the_norm_is_that_before_it(tmp_path):
    clip = dict(max_norm=1e-9)
    runner = train(tmp_path / 'run', [monitor()], iterations=5, clip=clip)
    assert runner.message_hub.get_scalar('train/grad_norm').current() > 1e-6


def test_a_model_without_latents_is_refused():
    with pytest.raises(ValueError, match='loss_module.*Linear has none'):
        MonitorHook._loss_module(nn.Linear(1, 1))


@pytest.mark.parametrize('argument', [dict(interval=0), dict(on_collapse='ignore')])
def test_wrong_arguments_are_named(argument):
    with pytest.raises(
        ValueError, match=f'MonitorHook: {next(iter(argument))} must be'
    ):
        MonitorHook(**argument)


HEALTHY = Signs(sharpness_a=0.5, sharpness_b=1.5, gap=1.0)
DEAD = Signs(sharpness_a=0.0, sharpness_b=0.0, gap=0.0)


@pytest.mark.parametrize(
    'sign, signs',
    [
        (None, HEALTHY),
        ('uniform', DEAD),
        ('uniform', Signs(0.5, 1e-4, -0.5)),
        ('empty', Signs(1.0, 0.5, -0.5)),
        ('empty', Signs(1.0, 1.04, 0.04)),
        (None, Signs(1.0, 1.2, 0.2)),
        # Nearly uniform, but B leads, so A will follow.
        (None, Signs(0.002, 0.008, 0.006)),
        (None, Signs(sharpness_a=math.nan, sharpness_b=math.nan, gap=math.nan)),
        # Without entropies, latents decide.
        ('constant', Signs(positive=1.0, other=0.995)),
        ('alike', Signs(positive=0.1, other=0.1)),
        (None, Signs(positive=0.9, other=0.5)),
        (None, Signs()),
    ],
)
def test_signs_of_a_dead_run(sign, signs):
    assert find_sign(signs) == sign


@pytest.mark.parametrize('length', [200, 1000, 10_000, 100_000])
@pytest.mark.parametrize('begin', [1, 97])
def test_the_alarm_comes_within_100_iterations_and_is_repeated(length, begin):
    watch, alarms = CollapseAlarm(length), []
    looks = range(10, length + 1, 10)
    for i in looks:
        if watch.check(i, DEAD if i >= begin else HEALTHY):
            alarms.append(i - begin)
        if watch.is_final:
            break
    assert alarms[0] <= 60
    assert all(later > 1.5 * sooner for sooner, later in zip(alarms, alarms[1:]))
    assert f'since iteration {looks[0] if begin == 1 else 100}' in watch.describe(
        0.05, 0.1, 256
    )
    stop = {200: 100, 1000: 100, 10_000: 500, 100_000: 1000}[length]
    assert stop <= i - begin <= stop + 10


def test_a_sign_must_last():
    watch = CollapseAlarm(1000)
    for i in range(10, 1000, 10):
        assert not watch.check(i, HEALTHY if i % 50 == 0 else DEAD)


def test_the_last_healthy_checkpoint_is_released_when_all_is_well(tmp_path):
    hub = MessageHub.get_instance('healthy')
    runner = SimpleNamespace(message_hub=hub)
    healthy = HealthyCheckpoint()
    healthy.keep()
    assert 'No checkpoint' in healthy.describe()
    for name in ('a.pth', 'b.pth'):
        (tmp_path / name).write_text(name)
    hub.update_info('last_ckpt', str(tmp_path / 'a.pth'))
    healthy.note(runner)
    hub.update_info('last_ckpt', str(tmp_path / 'b.pth'))  # saved while it is dead
    healthy.keep()
    (tmp_path / 'a.pth').unlink()
    healthy.keep()
    assert (tmp_path / 'healthy_a.pth').read_text() == 'a.pth'
    assert 'healthy_a.pth' in healthy.describe()
    healthy.note(runner)
    assert not (tmp_path / 'healthy_a.pth').exists()


@pytest.mark.parametrize('mask', ['exclude', 'zero', None])
@pytest.mark.parametrize('global_norm', [True, False])
def test_entropies_of_latents_without_direction(mask, global_norm):
    loss = BAMLoss(4, positive_mask=mask, global_norm=global_norm)
    value = loss(torch.zeros(4 * 6, 8)).item()
    uniform_a, uniform_b = uniform_entropies(loss, 6)
    assert uniform_a == pytest.approx(value)
    assert uniform_b == pytest.approx(loss.stats['entropy_b'].item(), abs=1e-5)


def test_the_uniform_entropy_of_b_follows_top_k():
    loss = BAMLoss(2, top_k=3)
    loss(torch.zeros(2 * 6, 8))
    assert uniform_entropies(loss, 6)[1] == pytest.approx(math.log(3))
    assert loss.stats['entropy_b'].item() == pytest.approx(math.log(3), abs=1e-5)


def test_a_method_without_attention_is_monitored_by_the_other_signs():
    """DINO: no entropies of A and B."""
    loss = DINOLoss(6, num_views=2)
    logged, shown = monitored([12], lambda z: loss(z, z.detach()), loss)
    assert logged['monitor/positive_similarity'] < 1 < logged['monitor/rankme'] <= 6
    assert shown['gap'] is None
    assert shown['other'] == logged['monitor/other_similarity']


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
        max_iters=10,
        optim_wrapper=SimpleNamespace(
            optimizer=optimizer, clip_grad_kwargs={}, get_lr=lambda: dict(lr=[0.1])
        ),
    )
    hook = MonitorHook(interval=1)
    hook._highest_lr = 0.1  # the warm-up is over
    hook.before_train(runner)
    hook.alarm.check = lambda iteration, signs: shown.append(signs)
    hook.before_train_iter(runner, 0)
    loss = (call or model.head.loss_module)(model.neck(mine))
    loss.backward()
    for parameter in model.parameters():
        all_reduce(parameter.grad, 'mean')
    optimizer.step()
    outputs = dict(loss=loss, **model.head.loss_module.stats)
    hook.after_train_iter(runner, 0, outputs=outputs)
    names = ('rankme', 'backbone_rankme', 'positive_similarity', 'other_similarity')
    names += ('uniform_entropy',) if loss_module is None else ()
    names = [f'monitor/{name}' for name in names] + ['grad_norm']
    logged = {
        name: runner.message_hub.get_scalar(f'train/{name}').current() for name in names
    }
    return logged, asdict(shown[0])


def test_two_ranks_see_the_signs_of_one():
    logged, shown = monitored([12])
    for other_logged, other_shown in run_ranks(monitored, 2, [8, 4]):
        assert other_logged == pytest.approx(logged, rel=1e-6)
        assert other_shown.keys() == shown.keys()
        for name, value in shown.items():
            if value is None:
                assert other_shown[name] is None
            else:
                assert other_shown[name] == pytest.approx(value, rel=1e-6)


def test_micro_batches_show_the_embeddings_of_the_whole_batch_once():
    seen = {}
    for size in (None, 3, 'auto'):
        torch.manual_seed(0)
        model = MODELS.build(dict(bam_config(), micro_batch_size=size))
        runner = SimpleNamespace(
            model=model,
            optim_wrapper=SimpleNamespace(clip_grad_kwargs=True),
            iter=0,
            max_iters=100,
        )
        hook = MonitorHook(interval=1)
        hook.before_train(runner)
        hook.before_train_iter(runner, 0)
        model(make_views(n=7), mode='loss')['loss'].backward()
        seen[size] = hook._embeddings
        assert not hook._calls
    assert seen[None].shape == (7, 32)
    for size in (3, 'auto'):
        torch.testing.assert_close(seen[size], seen[None])
