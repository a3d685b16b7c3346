"""Delay and false alarms of MonitorHook: ``python benchmarks/alarm.py``.

Trains the tiny recipes on patches of the made world, with smaller networks and two
views:

- healthy runs, ResNet and ViT, with a teacher and without one (then with batch norm in
  the projector, as in the paper), several seeds: an alarm in one of them is false;
- sick runs, ViT with a teacher and tau_b = 0.15. The dead state begins at the first
  iteration from which the loss and the entropies of A and B stay within 0.001 nats of
  the logarithm of the number of columns.

Longer runs than the first are simulated: the alarm is given the recorded curve of a
healthy run, again and again until the middle of the run, and then that of the sick one.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import chain, cycle, islice, product
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from mmpretrain.registry import MODELS

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.common import parser  # noqa: E402
from mmbam.demo.world.patches import draw_patch  # noqa: E402
from mmbam.demo.world.photographs import class_names  # noqa: E402
from mmbam.engine.hooks import MonitorHook  # noqa: E402
from mmbam.engine.hooks.collapse import (  # noqa: E402
    LOOK_EVERY,
    CollapseAlarm,
    Signs,
    find_sign,
)
from mmbam.engine.hooks.signs import entropy_signs, uniform_entropies  # noqa: E402
from mmbam.registry import TRANSFORMS  # noqa: E402

BATCH, WARMUP = 32, 30
SICK_TAU_B = 0.15
SHORTEST = 200
LENGTHS = (1000, 10_000, 100_000)
# Nats from the uniform distribution that count as dead.
CLOSE = 1e-3
BACKBONES = {
    'resnet': dict(stem_channels=8, base_channels=8),
    'vit': dict(
        arch=dict(embed_dims=64, num_layers=4, num_heads=4, feedforward_channels=256)
    ),
}
WIDTHS = {'resnet': 32, 'vit': 64}


class Views(torch.utils.data.Dataset):
    """Two views of patches of the made world, four draws of each, in memory."""

    def __init__(self, kinds: list[dict], images: int = 512, draws: int = 4) -> None:
        rng, names = np.random.default_rng(0), class_names(16)
        np.random.seed(0)
        crop = TRANSFORMS.build(dict(type='mmbam.MultiCrop', views=kinds))
        patches = [draw_patch(names[i % 16], 'train', 32, rng) for i in range(images)]
        self.views = [
            [
                torch.from_numpy(view.transpose(2, 0, 1).copy())
                for view in crop.transform(dict(img=np.stack([patch] * 3, 2)))['img']
            ]
            for _ in range(draws)
            for patch in patches
        ]
        self.length = len(self.views)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> dict:
        return dict(inputs=self.views[i % len(self.views)], data_samples=0)


class Recorder(MonitorHook):
    """The hook as recipes have it, which also writes down what it sees and says."""

    def __init__(self) -> None:
        super().__init__(on_collapse='warn')
        self.alarms: list[int] = []
        self.losses: list[float] = []
        self.curve: list[Signs] = []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        loss, a, b = (outputs[key].item() for key in ('loss', 'entropy_a', 'entropy_b'))
        module = self._loss_module(runner.model)
        self.losses.append(loss - uniform_entropies(module, BATCH)[0])
        self.curve.append(entropy_signs(module, BATCH, a, b))
        super().after_train_iter(runner, batch_idx, data_batch, outputs)

    def _say(self, runner, message: str, stop: bool) -> None:
        self.alarms.append(runner.iter + 1)


def train(
    kind: str, teacher: bool, seed: int, iterations: int, data: Views, **loss
) -> Recorder:
    """Train one tiny network; its recorder."""
    cfg = Config.fromfile(ROOT / f'configs/tiny/bam_{kind}_32px.py')
    model = cfg.model
    model.backbone.update(BACKBONES[kind])
    model.channels_last = False  # with 8 channels torch would overwrite memory
    model.neck.update(in_channels=WIDTHS[kind], hid_channels=256, out_channels=128)
    model.head.loss.update(num_views=2, **loss)
    if not teacher:
        model.teacher, model.neck.norm_cfg = None, dict(type='BN1d')
    data.length = BATCH * iterations
    wrapper = cfg.optim_wrapper
    # As --auto-scale-lr does.
    wrapper.optimizer.lr *= BATCH / cfg.auto_scale_lr.base_batch_size
    recorder = Recorder()
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as work_dir:
        Runner(
            MODELS.build(dict(model, data_preprocessor=cfg.data_preprocessor)),
            work_dir=work_dir,
            train_dataloader=dict(
                batch_size=BATCH,
                dataset=data,
                sampler=dict(type='DefaultSampler', shuffle=True),
                collate_fn=dict(type='default_collate'),
            ),
            train_cfg=dict(by_epoch=True, max_epochs=1),
            optim_wrapper=wrapper,
            param_scheduler=[
                dict(type='LinearLR', start_factor=0.01, by_epoch=False, end=WARMUP),
                dict(
                    type='CosineAnnealingLR',
                    by_epoch=False,
                    begin=WARMUP,
                    end=iterations,
                ),
            ],
            custom_hooks=[recorder],
            default_hooks=dict(
                logger=dict(type='LoggerHook', interval=iterations), checkpoint=None
            ),
            default_scope='mmpretrain',
            experiment_name=f'{kind}-{teacher}-{seed}-{time.time()}',
            randomness=dict(seed=seed),
            log_level='ERROR',
        ).train()
    return recorder


def dead_from(run: Recorder) -> int | None:
    """The iteration from which the loss and both entropies stay uniform, if any."""
    begin = None
    for i, (loss, signs) in enumerate(zip(run.losses, run.curve), 1):
        assert signs.sharpness_a is not None and signs.sharpness_b is not None
        distance = max(abs(loss), signs.sharpness_a, signs.sharpness_b)
        if distance > CLOSE:
            begin = None
        elif begin is None:
            begin = i
    return begin


def longest(curve: list[Signs]) -> int:
    """Number of iterations in a row that show a sign."""
    most = now = 0
    for signs in curve:
        now = now + 1 if find_sign(signs) else 0
        most = max(most, now)
    return most


def simulate(
    length: int, healthy: list[Signs], sick: list[Signs], dead: int
) -> tuple[int, int]:
    """Iterations from the begin of the dead state to the alarm and to the stop."""
    lead = length // 2
    tail = chain(sick, cycle(sick[dead - 1 :]))
    curve = chain(islice(cycle(healthy), lead), tail)
    alarm, first = CollapseAlarm(length), None
    for i, signs in enumerate(islice(curve, length), 1):
        if i % LOOK_EVERY:
            continue
        if alarm.check(i, signs) and first is None:
            first = i
        if alarm.is_final:
            assert first is not None
            return first - lead - dead, i - lead - dead
    raise RuntimeError(f'No alarm in {length} iterations.')


def main() -> None:
    args = parser(__doc__, iterations=200, seeds=5).parse_args()
    torch.set_num_threads(1)
    cfg = Config.fromfile(ROOT / 'configs/tiny/bam_vit_32px.py')
    data = Views(cfg.train_pipeline[2]['views'][:2])
    print(f'sick runs, tau_b {SICK_TAU_B}: iterations from the dead state to the alarm')
    sick, delays = [], []
    for seed in range(2):
        run = train('vit', True, seed, SHORTEST, data, tau_b=SICK_TAU_B)
        dead = dead_from(run)
        if dead is None or not run.alarms:
            raise SystemExit(f'seed {seed}: dead from {dead}, alarms {run.alarms}')
        sick.append((run.curve, dead))
        delays.append(run.alarms[0] - dead)
        print(
            f'  seed {seed}, {SHORTEST:6d} iterations, trained: dead from {dead}, '
            f'alarms at {run.alarms}: after {delays[-1]}',
            flush=True,
        )
    print(f'healthy runs of {args.iterations} iterations')
    curves, false = [], 0
    for kind, teacher, seed in product(BACKBONES, (True, False), range(args.seeds)):
        run = train(kind, teacher, seed, args.iterations, data)
        curves.append(run.curve)
        false += bool(run.alarms)
        first, last = np.mean(run.losses[:10]), np.mean(run.losses[-10:])
        print(
            f'  {kind:<6} {"teacher" if teacher else "batch norm":<10} seed {seed}: '
            f'loss minus that of uniform attention {first:6.3f} to {last:6.3f}, '
            f'longest sign {longest(run.curve):3d} iterations, alarms '
            f'{run.alarms or "none"}',
            flush=True,
        )
    print('longer sick runs, simulated from recorded curves')
    for seed, (curve, dead) in enumerate(sick):
        for length in LENGTHS:
            delay, stop = simulate(length, curves[0], curve, dead)
            delays.append(delay)
            print(
                f'  seed {seed}, {length:6d} iterations: alarm after {delay}, stop '
                f'after {stop}'
            )
    print(f'false alarms: {false} of {len(curves)} healthy runs')
    print(f'longest delay: {max(delays)} iterations')


if __name__ == '__main__':
    main()
