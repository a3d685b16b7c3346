"""Derive the whole config of a run, and say why each value is what it is."""

from __future__ import annotations

import math
import os
from typing import NamedTuple

from mmengine.config import Config

from mmbam.utils.config import describe
from mmbam.utils.errors import InputError

from . import numbers
from .folder import ImageFolder
from .hooks import knn, localization, runtime_config, times
from .networks import build_network, model_config, patch_of
from .schedule import (
    choose_schedule,
    optimizer_config,
    peak_rate,
    scheduler_config,
    warmup_steps,
)
from .views import view_pipeline, view_sizes
from .wishes import Wishes, batch_size_of


class Recipe(NamedTuple):
    """A derived config, and a row (what, value, why) for each decision."""

    config: Config
    rows: list[tuple[str, str, str]]


def derive(images: ImageFolder, wishes: Wishes) -> Recipe:
    """Derive the config of a run from images and wishes."""
    return _Derivation(images, wishes).recipe()


class _Derivation:
    """The decisions in their order, each of which adds its row."""

    def __init__(self, images: ImageFolder, wishes: Wishes) -> None:
        self.images, self.wishes = images, wishes
        self.rows: list[tuple[str, str, str]] = []

    def row(self, what: str, value: object, why: str) -> None:
        self.rows.append((what, str(value), why))

    def recipe(self) -> Recipe:
        wishes = self.wishes
        self._decide_views_and_network()
        self._decide_length()
        config = dict(
            default_scope='mmpretrain',
            model=self._model(),
            train_dataloader=self._loader(),
            train_cfg=dict(type='mmbam.EpochLoop', max_epochs=wishes.epochs),
            **self._optimization(),
            **self._runtime(),
            custom_hooks=self._hooks(),
            work_dir=wishes.out,
        )
        cfg = Config(config)
        for key, value in wishes.options.items():
            try:
                cfg.merge_from_dict({key: value})
            except Exception as error:  # mmengine has no class for this
                raise InputError(f'{key!r} cannot be set: {describe(error)}') from error
            self.row(key, value, 'of --cfg-options')
        return Recipe(cfg, self.rows)

    def _decide_views_and_network(self) -> None:
        images, wishes = self.images, self.wishes
        patch = patch_of(wishes.model)
        both = patch
        if wishes.teacher:
            both = math.lcm(patch, patch_of(wishes.teacher))
        self.size, self.local_size = view_sizes(images.short_side, both)
        sizes = 'of mixed sizes' if images.mixed else 'of one size'
        self.row(
            'images',
            f'{images.count:,}',
            f'{sizes}, shorter side typically {images.short_side} px'
            + (
                f'; {images.unreadable} unreadable of those tried'
                * (images.unreadable > 0)
            ),
        )
        self.network = build_network(wishes.model, self.size, wishes.options)
        self.row(
            'network',
            wishes.model,
            f'its embedding has {self.network.width} numbers'
            + (
                '; 3 x 3 stem without pooling, because the images are small'
                if self.network.config['type'].endswith('ResNet_CIFAR')
                else ''
            ),
        )

    def _decide_length(self) -> None:
        images, wishes = self.images, self.wishes
        self.batch = batch_size_of(images.count, wishes.batch_size, wishes.devices)
        self.epoch_steps = images.count // self.batch
        self.steps = self.epoch_steps * wishes.epochs
        self.short = self.steps < numbers.LONG_FROM
        # Larger and smaller views need a teacher in longer runs (docs/comparison.md).
        self.num_local = 0 if self.short else numbers.LOCAL_VIEWS
        self.num_views = 2 + self.num_local
        why = 'given' if wishes.batch_size else 'BAM compares the images of a batch'
        if not wishes.batch_size and self.batch < numbers.BATCH_SIZE:
            why = f'lower than {numbers.BATCH_SIZE}, because there are few images'
        if wishes.devices > 1:
            why += f'; {self.batch // wishes.devices} on each of {wishes.devices}'
        self.row('batch size', self.batch, why)
        self.row(
            'length',
            times(wishes.epochs, 'epoch'),
            f'{times(self.epoch_steps, "step")} each, {self.steps:,} in all',
        )
        kind, why = 'long', "the paper's: a teacher, local views, no batch norm"
        if self.short:
            kind = 'short'
            norm = '' if self.wishes.teacher else 'batch norm in the projector and '
            why = (
                f'below {numbers.LONG_FROM:,} steps: {norm}two views learn from the '
                'first steps on'
            )
        self.row('recipe', kind, why)
        views = f'2 x {self.size} px'
        if self.num_local:
            views += f' + {self.num_local} x {self.local_size} px'
        side = self.images.short_side
        why = 'no larger than the images'
        if side > self.size:
            why = f'images of {side} px are reduced, as in the paper'
        elif side < self.size:
            why = f'the network needs {numbers.LEAST_PATCHES} patches on a side'
        if self.network.patch > 1:
            why += f'; multiples of its patches of {self.network.patch} px'
        self.row('views', views, why)

    def _model(self) -> dict:
        wishes, network = self.wishes, self.network
        act = 'ReLU' if network.is_resnet else 'GELU'
        teacher, norm = self._teacher(), None
        width = numbers.LONG_PROJECTOR
        if self.short:
            width = numbers.SHORT_PROJECTOR
            while width < network.width:
                width *= 2
        out = width
        if wishes.teacher:
            out = self.teacher_width
        elif self.short:
            norm = dict(type='BN1d')
        self.row(
            'projector',
            f'{network.width} to {width}, {width}, {out}',
            f'{act}, {"batch norm" if norm else "no batch norm"}; '
            + (
                'as wide as the teacher'
                if wishes.teacher
                else 'narrower than in the paper'
                if width < numbers.LONG_PROJECTOR
                else 'of the paper'
            ),
        )
        tau_b, why = numbers.TAU_B, 'of the paper'
        if self.short and not wishes.teacher:
            tau_b, why = numbers.SHORT_TAU_B, 'sharper targets, which drift less'
        self.row('tau_b', tau_b, why)
        widths = (network.width, width, out)
        model = model_config(network, widths, act, norm, self.num_views, tau_b, teacher)
        if wishes.gpu and norm is None and not network.batch_norm:
            model['micro_batch_size'] = 'auto'
            self.row('micro-batch', 'auto', 'the whole batch may not fit into memory')
        return model

    def _teacher(self) -> dict | None:
        wishes = self.wishes
        if wishes.teacher:
            teacher = build_network(wishes.teacher, self.size)
            self.teacher_width = teacher.width
            self.row('teacher', wishes.teacher, 'given, and stays as it is')
            return dict(
                type='mmbam.FrozenTeacher',
                backbone=teacher.config,
                checkpoint=os.path.abspath(str(wishes.teacher_checkpoint)),
            )
        if self.short:
            self.row(
                'teacher', 'none', 'a moving average learns too late in a short run'
            )
            return None
        momentum = min(numbers.MOMENTUM, 1 - 1 / (numbers.MOMENTUM_SHARE * self.steps))
        self.row('teacher', f'average, {momentum:g} to 1', 'momentum of the paper')
        return dict(type='mmbam.EMATeacher', momentum=momentum, end_momentum=1.0)

    def _loader(self) -> dict:
        wishes = self.wishes
        workers = min(10, max(1, wishes.cores // wishes.devices))
        why = 'as many as the cores of a device, at most 10'
        if not wishes.gpu:
            workers, why = 1, 'the network itself needs the cores'
        self.row('loading', times(workers, 'worker'), why)
        if self.images.largest > 16 * self.size**2 * 4:
            self.row(
                'hint',
                'large files',
                f'copies of {2 * self.size} px would load many times faster',
            )
        return dict(
            batch_size=self.batch // wishes.devices,
            num_workers=workers,
            persistent_workers=True,
            pin_memory=wishes.gpu,
            drop_last=True,
            sampler=dict(type='DefaultSampler', shuffle=True),
            collate_fn=dict(type='default_collate'),
            dataset=dict(
                self.images.dataset,
                pipeline=view_pipeline(self.size, self.local_size, self.num_local),
            ),
        )

    def _optimization(self) -> dict:
        schedule = choose_schedule(self.network, self.short)
        lr = peak_rate(
            schedule, self.batch, self.network.width, self.wishes.init is not None
        )
        growth = 'root' if schedule.power == 0.5 else 'linear'
        why = f'{schedule.lr:g} at batch {schedule.batch_size} ({schedule.source}), '
        why += f'{growth} in the batch'
        if self.short and self.network.width > numbers.SHORT_WIDTH:
            why += f', for width {numbers.SHORT_WIDTH}; less for wider networks'
        if self.wishes.init:
            why += '; a tenth, because it starts from weights'
        self.row('optimizer', f'{schedule.optimizer}, {lr:g}', why)
        up = warmup_steps(schedule, self.steps)
        if up:
            self.row(
                'schedule',
                f'{up} steps up, then cosine',
                f'{schedule.warmup:.0%} of the run, at least 2 steps',
            )
        return dict(
            optim_wrapper=optimizer_config(schedule, lr, self.wishes.gpu),
            param_scheduler=scheduler_config(schedule, self.steps),
            auto_scale_lr=dict(base_batch_size=self.batch, enable=False),
        )

    def _runtime(self) -> dict:
        # About 200 points of a curve, and 10 checkpoints.
        self.log_every = max(1, min(50, self.steps // 200))
        save_every = max(1, round(self.wishes.epochs / 10))
        self.row(
            'checkpoint',
            f'every {save_every} epochs' if save_every > 1 else 'every epoch',
            'a tenth of the run, and every 15 minutes',
        )
        runtime = runtime_config(self.log_every, save_every, self.wishes.gpu)
        if self.wishes.model.startswith('timm:'):
            runtime['find_unused_parameters'] = True  # nobody knows of all of them
        return runtime

    def _hooks(self) -> list[dict]:
        wishes, epochs = self.wishes, self.wishes.epochs
        hooks: list[dict] = []
        if wishes.init:
            start = dict(checkpoint=os.path.abspath(wishes.init))
            if wishes.prefix is not None:
                start['prefix'] = wishes.prefix
            hooks.append(dict(type='mmbam.PretrainedBackboneHook', **start))
            self.row('start', os.path.basename(wishes.init), 'given')
        hooks.append(dict(type='mmbam.SeedByEpochHook'))
        localize, row = localization(
            self.size,
            epochs,
            self.short,
            wishes.init is not None,
            256 if wishes.gpu else 64,
        )
        hooks += localize
        self.row(*row)
        hooks.append(dict(type='mmbam.MonitorHook', interval=self.log_every))
        self.row('alarm', 'on', 'ends a run whose targets say nothing')
        if wishes.labeled:
            hook, row = knn(wishes.labeled, self.size, epochs)
            hooks.append(hook)
            self.row(*row)
        hooks.append(dict(type='mmbam.PageHook', interval=max(1, epochs // 20)))
        return hooks
