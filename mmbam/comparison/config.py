"""The config of one run: what is shared, and the method."""

from __future__ import annotations

import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope

from mmbam.evaluation.loaders import build_dataset
from mmbam.models import pool_features
from mmbam.utils.errors import InputError
from mmbam.utils.model import frozen

from .methods import METHODS, Method
from .models import Setup
from .settings import Settings

WEIGHT_DECAY, CLIP, WARMUP = 0.04, 1.0, 0.1
PREPROCESSOR = dict(
    type='SelfSupDataPreprocessor',
    mean=[123.675, 116.28, 103.53],
    std=[58.395, 57.12, 57.375],
    to_rgb=True,
)


def shared(settings: Settings) -> list[str]:
    """What all methods have in common, in words."""
    budget = (
        f'{settings.epochs} epochs'
        if settings.epochs
        else f'{settings.minutes:g} minutes of training (as many epochs as fit, by the '
        'time of the first steps)'
    )
    return [
        f'Data {settings.data}, images of {settings.size} x {settings.size} px, '
        f'batches of {settings.batch_size}.',
        f'Backbone {settings.backbone}; hidden width {settings.head_width} of all '
        'projectors and predictors, far below the published ones for larger networks.',
        f'Budget {budget}.',
        f'AdamW, learning rate {settings.lr:g} after a warm-up over a tenth of the '
        f'run, cosine to 0, weight decay {WEIGHT_DECAY}, gradients clipped at '
        f'{CLIP:g}. Papers have optimisers of their own.',
        'Views: crop, flip, jitter, gray, blur and solarize as in the paper, the blur '
        'in proportion to the size; with multi-crop '
        f'{settings.local_views} more of {settings.local_size} px.',
        'Moving averages begin at the published momentum, or at one that spans a tenth '
        'of the run if that is less.',
        'Evaluated is the moving average for BAM with a teacher and DINO, the trained '
        'network for all others: k-NN with 20 neighbours, and a linear probe.',
    ]


def steps_per_epoch(settings: Settings) -> int:
    """Full batches of the images to pre-train on."""
    dataset = {**settings.datasets()['pretrain'], 'pipeline': []}
    number = len(build_dataset(dataset))
    if number < settings.batch_size:
        raise InputError(
            f'{number} images to pre-train on do not fill a batch of '
            f'{settings.batch_size}: choose a smaller batch.'
        )
    return number // settings.batch_size


def run_config(
    name: str, settings: Settings, seed: int, epochs: int, folder: str
) -> Config:
    """Config for a runner.

    Args:
        name (str): Of the method.
        settings (Settings): What is shared.
        seed (int): Of this run.
        epochs (int): Of this run.
        folder (str): Its work directory.
    """
    init_default_scope('mmpretrain')
    method = METHODS[name]
    steps = steps_per_epoch(settings)
    backbone = settings.backbone_config()
    width, is_map = _embedding(backbone, settings.size)
    setup = Setup(
        backbone=backbone,
        width=width,
        is_map=is_map,
        views=2 + (settings.local_views if method.multi_crop else 0),
        head_width=settings.head_width,
        size=settings.size,
        steps=steps * epochs,
        epochs=epochs,
        batch_size=settings.batch_size,
    )
    model = {'backbone': backbone, 'data_preprocessor': PREPROCESSOR}
    model.update(method.model(setup))
    warmup = max(2, round(WARMUP * setup.steps))  # one step would never rise
    cfg = Config(
        dict(
            default_scope='mmpretrain',
            work_dir=folder,
            model=model,
            train_dataloader=dict(
                batch_size=settings.batch_size,
                num_workers=settings.workers,
                persistent_workers=settings.workers > 0,
                drop_last=True,
                sampler=dict(type='DefaultSampler', shuffle=True),
                collate_fn=dict(type='default_collate'),
                dataset={
                    **settings.datasets()['pretrain'],
                    'pipeline': _pipeline(method, settings),
                },
            ),
            train_cfg=dict(type='EpochBasedTrainLoop', max_epochs=epochs),
            optim_wrapper=dict(
                type='OptimWrapper',
                optimizer=dict(type='AdamW', lr=settings.lr, weight_decay=WEIGHT_DECAY),
                clip_grad=dict(max_norm=CLIP),
                # SwAV's projector holds its batch norm under two names.
                paramwise_cfg=dict(flat_decay_mult=0.0, bypass_duplicate=True),
            ),
            param_scheduler=[
                dict(type='LinearLR', start_factor=0.01, by_epoch=False, end=warmup),
                dict(
                    type='CosineAnnealingLR',
                    by_epoch=False,
                    begin=warmup,
                    end=max(setup.steps, warmup + 1),
                ),
            ],
            default_hooks=dict(
                # Every epoch is where an interrupted run may go on.
                checkpoint=dict(type='CheckpointHook', interval=1, max_keep_ckpts=1),
            ),
            custom_hooks=[dict(type='mmbam.SeedByEpochHook'), *method.hooks(setup)],
            randomness=dict(seed=seed),
            env_cfg=dict(mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0)),
            log_level='ERROR',
            resume=True,
        )
    )
    cfg.merge_from_dict(settings.options.get(name, {}))
    return cfg


def _pipeline(method: Method, settings: Settings) -> list[dict]:
    size = settings.size
    load = [dict(type='mmbam.SeedBySample'), dict(type='mmbam.LoadImage')]
    if method.one_view:
        return [
            *load,
            dict(
                type='RandomResizedCrop',
                scale=size,
                crop_ratio_range=(0.2, 1.0),
                interpolation='bicubic',
            ),
            dict(type='RandomFlip', prob=0.5),
            dict(type='PackInputs'),
        ]
    sigma = (0.1, max(0.2, 2.0 * size / 224))
    views = [
        dict(size=size, area=(0.25, 1.0), blur=1.0, sigma=sigma),
        dict(size=size, area=(0.25, 1.0), blur=0.1, sigma=sigma, solarize=0.2),
    ]
    if method.multi_crop:
        views.append(
            dict(
                num=settings.local_views,
                size=settings.local_size,
                # The paper's 0.05 to 0.25 is next to nothing of a small image.
                area=(0.05, 0.25) if size > 64 else (0.15, 0.4),
                blur=0.5,
                sigma=sigma,
            )
        )
    return [*load, dict(type='mmbam.MultiCrop', views=views), dict(type='PackInputs')]


def _embedding(backbone: dict, size: int) -> tuple[int, bool]:
    """Width of a backbone's embedding, and whether it returns maps."""
    network = MODELS.build(backbone)
    with frozen(network):
        features = network(torch.zeros(2, 3, size, size))
    width = pool_features(features).shape[1]
    while not isinstance(features, torch.Tensor):
        features = features[-1]
    return width, features.dim() == 4
