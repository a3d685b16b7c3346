"""The config of one run: what all methods share, and the method's own."""

from __future__ import annotations

import math
from typing import Any

import torch
from mmengine.config import Config, ConfigDict
from mmengine.registry import MODELS, init_default_scope

from mmbam.engine.launch import set_amp
from mmbam.evaluation.accuracy import standard_error
from mmbam.evaluation.loaders import build_dataset
from mmbam.models.backbones.anatomy import (
    embedding_width,
    patch_size,
)
from mmbam.models.backbones.outputs import last_features
from mmbam.utils.errors import InputError
from mmbam.utils.model import frozen

from .method import Method, fill
from .settings import FOLDER, Settings

SHARED = FOLDER / '_base_' / 'shared.py'


def shared(settings: Settings) -> list[str]:
    """Return sentences that say what all methods have in common."""
    wrapper = Config.fromfile(SHARED).optim_wrapper
    budget = (
        f'{settings.epochs} epochs'
        if settings.epochs
        else f'{settings.minutes:g} minutes of training: as many epochs as fit, by the '
        'median time of a step, measured with the methods in turns'
    )
    return [
        *labels(settings),
        f'Data {settings.data}, images of {settings.size} x {settings.size} px, '
        f'batches of {settings.batch_size}.',
        f'Backbone {settings.backbone}; hidden width {settings.head_width} of all '
        'projectors and predictors, far below the published ones for larger networks.',
        f'Budget {budget}.',
        f'AdamW, learning rate {settings.lr:g} after a warm-up over a tenth of the '
        f'run, cosine to 0, weight decay {wrapper.optimizer.weight_decay}, gradients '
        f'clipped at {wrapper.clip_grad.max_norm:g}. Most papers use other optimizers.',
        *(['Mixed precision.'] if settings.amp else []),
        "Views: crop, flip, jitter, gray, blur and solarize as in BAM's paper, the "
        'blur in proportion to the image size; methods with multi-crop get '
        f'{settings.local_views} more crops of {settings.local_size} px.',
        'Moving averages start at the published momentum, or at one that spans a tenth '
        'of the run if that is less.',
        'Evaluated is the moving average for BAM with a teacher and DINO, the trained '
        'network for all others.',
    ]


def labels(settings: Settings) -> list[str]:
    """Return sentences about the test images, their labels and what follows."""
    number = len(build_dataset(settings.datasets()['test']))
    classes = settings.classes()
    if not classes:
        return [
            f'No labels: {settings.data} does not hold class folders, so there is no '
            f'accuracy and no winner. {number} images that no method trained on show '
            'RankMe and how far the neighbors of an image agree between two views: '
            'these tell whether a network learned something, not which one learned '
            'more. Class folders (--labeled) would.'
        ]
    error = standard_error(50, number)
    return [
        f'{number} test images of {classes} classes: an accuracy of 50 % has a '
        f'standard error of {error:.1f} points, and two methods that differ by less '
        f'than {2 * math.sqrt(2) * error:.1f} points cannot be told apart.'
    ]


def steps_per_epoch(settings: Settings) -> int:
    """Return the number of full batches in the images to pre-train on."""
    dataset = {**settings.datasets()['pretrain'], 'pipeline': []}
    number = len(build_dataset(dataset))
    if number < settings.batch_size:
        raise InputError(
            f'{number} images to pre-train on do not fill a batch of '
            f'{settings.batch_size}: choose a smaller batch.'
        )
    return number // settings.batch_size


def run_config(
    method: Method, settings: Settings, seed: int, epochs: int, folder: str
) -> Config:
    """Make the config of a run, whose work directory is ``folder``."""
    init_default_scope('mmpretrain')
    backbone = settings.backbone_config()
    method.check_backbone(backbone['type'])
    values = _values(settings, backbone, epochs)
    pipeline = fill(method.config['train_pipeline'], values)
    values['views'] = _count_views(pipeline)
    own = {k: v for k, v in method.config.items() if k != 'train_pipeline'}
    own = fill(own, values)
    cfg = Config(fill(Config.fromfile(SHARED).to_dict(), values))
    cfg.work_dir, cfg.randomness = folder, dict(seed=seed)
    cfg.train_dataloader.dataset = {
        **settings.datasets()['pretrain'],
        'pipeline': [
            dict(type='mmbam.SeedBySample'),
            dict(type='mmbam.LoadImage'),
            *pipeline,
            dict(type='PackInputs'),
        ],
    }
    cfg.model = {**cfg.model, **own.pop('model')}  # not merged: MAE's own backbone
    cfg.custom_hooks += own.pop('custom_hooks', [])
    cfg.merge_from_dict(own)
    cfg.merge_from_dict(settings.options.get(method.name, {}))
    if settings.amp:
        set_amp(cfg)
    return cfg


def _values(settings: Settings, backbone: dict, epochs: int) -> dict[str, Any]:
    """Return what the formulas of a method may use; ``views`` comes with its views."""
    network = MODELS.build(backbone)
    with frozen(network):
        features = network(torch.zeros(2, 3, settings.size, settings.size))
    epoch_steps = steps_per_epoch(settings)
    steps = epochs * epoch_steps
    return dict(
        backbone=ConfigDict(backbone),
        width=embedding_width(network, settings.size),
        cnn=last_features(features).dim() == 4,
        patch_size=patch_size(network),
        blocks=len(getattr(network, 'layers', ())),
        head_width=settings.head_width,
        size=settings.size,
        local_size=settings.local_size,
        local_views=settings.local_views,
        batch_size=settings.batch_size,
        lr=settings.lr,
        workers=settings.workers,
        kept_every=max(1, epochs // settings.evaluations) if settings.keep else 0,
        epochs=epochs,
        epoch_steps=epoch_steps,
        steps=steps,
        warmup=max(2, round(0.1 * steps)),  # one step would never rise
        # A moving average spans at most a tenth of the run.
        momentum=lambda published: min(published, 1 - 10 / max(steps, 20)),
    )


def _count_views(pipeline: list[dict]) -> int:
    for transform in pipeline:
        if 'views' in transform:  # mmbam.MultiCrop
            return sum(view.get('num', 1) for view in transform['views'])
        if 'num_views' in transform:  # mmpretrain's MultiView
            number = transform['num_views']
            return number if isinstance(number, int) else sum(number)
    return 1
