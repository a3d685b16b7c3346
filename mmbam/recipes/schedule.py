"""The optimizer, and the course of its learning rate and weight decay."""

from __future__ import annotations

from typing import Any

from . import numbers
from .networks import Network
from .numbers import Schedule


def choose_schedule(network: Network, short: bool) -> Schedule:
    """The numbers for a network and a length of the run."""
    if short:
        return numbers.SHORT
    return numbers.LONG_RESNET if network.is_resnet else numbers.LONG


def peak_rate(
    schedule: Schedule, batch_size: int, width: int, from_weights: bool
) -> float:
    """The peak learning rate for the batch of all devices and the embedding's width."""
    rate = schedule.lr * (batch_size / schedule.batch_size) ** schedule.power
    if schedule is numbers.SHORT:
        rate *= min(1.0, numbers.SHORT_WIDTH / width)
    if from_weights:
        rate *= numbers.INIT_LR
    return float(f'{rate:.3g}')


def optimizer_config(schedule: Schedule, lr: float, gpu: bool) -> dict:
    """Config of the ``optim_wrapper``: mixed precision on a GPU."""
    wrapper: dict[str, Any] = dict(type='OptimWrapper')
    if gpu:
        wrapper = dict(type='AmpOptimWrapper', loss_scale='dynamic')
    optimizer = dict(type=schedule.optimizer, lr=lr, weight_decay=schedule.weight_decay)
    if schedule.optimizer == 'LARS':
        optimizer['momentum'] = 0.9
        alone = dict(decay_mult=0.0, lars_exclude=True)
        keys = ('bn', 'downsample.1', 'bias')
        paramwise: dict = dict(custom_keys={key: alone for key in keys})
    else:
        # No decay of biases and other one-dimensional parameters.
        paramwise = dict(flat_decay_mult=0.0)
    wrapper.update(optimizer=optimizer, paramwise_cfg=paramwise)
    if schedule.clip is not None:
        wrapper['clip_grad'] = dict(max_norm=schedule.clip)
    return wrapper


def warmup_steps(schedule: Schedule, steps: int) -> int:
    """Number of steps of the warm-up; 0 in runs too short for a schedule.

    A warm-up of a single step would never rise, and the cosine goes on from there.
    """
    return 0 if steps < 3 else max(2, round(schedule.warmup * steps))


def scheduler_config(schedule: Schedule, steps: int) -> list[dict]:
    """Configs of the schedules, in steps, because a run may have a single epoch."""
    warmup = warmup_steps(schedule, steps)
    if not warmup:
        return []
    schedulers = [
        dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=warmup),
        dict(type='CosineAnnealingLR', by_epoch=False, begin=warmup, end=steps),
    ]
    if schedule.end_decay != 1:
        schedulers.append(
            dict(
                type='CosineAnnealingParamScheduler',
                param_name='weight_decay',
                # eta_min would also raise the parameters without decay.
                eta_min_ratio=schedule.end_decay,
                by_epoch=False,
                begin=0,
                end=steps,
            )
        )
    return schedulers
