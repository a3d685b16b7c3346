"""What a run needs beside its model, data and optimizer.

Hooks come with their row (what, value, why).
"""

from __future__ import annotations

from mmbam.evaluation.frozen import plain_pipeline
from mmbam.evaluation.labeled import train_and_test

from . import numbers

Row = tuple[str, str, str]  # what, value, why


def times(number: int, what: str) -> str:
    """A number of things: ``1 epoch``, ``2 epochs``."""
    return f'{number:,} {what}' + 's' * (number != 1)


def localization(
    size: int, epochs: int, short: bool, from_weights: bool, batch_size: int
) -> tuple[list[dict], Row]:
    """ContrastiveCrop's hook, if crops can miss what an image shows.

    ``size`` is the side of the global views, ``batch_size`` that of the hook.
    """
    name = 'ContrastiveCrop'
    if size <= numbers.SMALL_VIEW:
        return [], (name, 'off', 'a crop shows most of so small an image')
    if epochs < 4:
        why = f'a run of {times(epochs, "epoch")} is too short'
        return [], (name, 'off', why)
    shares = numbers.LOCALIZE_SHORT if short else numbers.LOCALIZE_LONG
    first, every = (max(1, round(share * epochs)) for share in shares)
    why = '40 and 20 of 300 epochs in the paper'
    if short:
        why = 'half and a quarter of a short run'
    if from_weights:
        first, why = 0, 'good weights give useful boxes at once'
    hook = dict(
        type='mmbam.LocalizeHook',
        start_epoch=first,
        interval=every,
        image_size=size,
        batch_size=batch_size,
    )
    return [hook], (name, f'from epoch {first}, every {every}', why)


def knn(folder: str, size: int, epochs: int) -> tuple[dict, Row]:
    """The hook that measures k-NN accuracy on labeled images.

    ``folder`` is one for :func:`mmbam.evaluation.labeled.train_and_test`.
    """
    train, test, number = train_and_test(folder, plain_pipeline(size))
    every = max(1, epochs // 10)
    hook = dict(
        type='mmbam.KNNHook',
        train_dataset=train,
        test_dataset=test,
        interval=every,
        fraction=1.0 if number <= 50_000 else 0.1,
        k=min(20, number),
        network='teacher',
        num_workers=1,
    )
    value = f'every {times(every, "epoch")}' if every > 1 else 'every epoch'
    return hook, ('k-NN', value, f'{number:,} images to search')


def runtime_config(log_every: int, save_every: int, gpu: bool) -> dict:
    """Config of logs every few steps, checkpoints every few epochs, and processes."""
    runtime = dict(
        default_hooks=dict(
            runtime_info=dict(type='RuntimeInfoHook'),
            timer=dict(type='IterTimerHook'),
            logger=dict(type='LoggerHook', interval=log_every, ignore_last=False),
            param_scheduler=dict(type='ParamSchedulerHook'),
            checkpoint=dict(
                type='mmbam.CheckpointHook',
                interval=save_every,
                max_keep_ckpts=3,
                minutes=15,
            ),
            sampler_seed=dict(type='DistSamplerSeedHook'),
        ),
        env_cfg=dict(
            cudnn_benchmark=True,
            mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0),
            dist_cfg=dict(backend='nccl' if gpu else 'gloo'),
        ),
        visualizer=dict(
            type='UniversalVisualizer', vis_backends=[dict(type='LocalVisBackend')]
        ),
        log_processor=dict(
            window_size=log_every,
            mean_pattern=r'.*(loss|time|data_time|grad_norm|entropy).*',
        ),
        log_level='INFO',
        load_from=None,
        resume=False,
        randomness=dict(seed=0),
    )
    if gpu:
        runtime['sync_bn'] = 'torch'  # wherever there is batch norm
    return runtime
