"""What the curves of a run say, and what usually helps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from mmbam.visualization.curves import read_run

from .doctor import NOTE, OK, PROBLEM, WAITING, Finding, loading_help

# Fewer logged values say nothing about a course.
ENOUGH = 8
# Nats by which entropies must differ, and share of its start that a loss must move.
SHARPER, MOVED = 0.05, 0.01
# Nats by which B may become flatter after the first fifth of a run, by medians of five
# values: at most 0.4 in most runs, 1.3 and 1.9 in two that drifted, 1.4 in one between.
RISE = 1.0
# Gradients of so many times the usual norm, and the share of them that is too many.
SPIKE, SPIKES = 10.0, 0.02

Course = tuple[Sequence[int], Sequence[float]]


def check_run(work_dir: str | Path) -> list[Finding]:
    """Say what the curves of a work directory, or of one ``scalars.json``, mean."""
    scalars: Mapping[str, Course] = read_run(work_dir)
    looks = (_loss, _entropies, _learning_rate, _gradients, _waiting, _accuracy)
    return [finding for look in looks for finding in look(scalars)]


def _values(scalars: Mapping[str, Course], name: str) -> list[float]:
    return list(scalars.get(name, ((), ()))[1])


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Medians of the first and of the last tenth."""
    number = max(1, len(values) // 10)
    return median(values[:number]), median(values[-number:])


def _loss(scalars: Mapping[str, Course]) -> list[Finding]:
    steps, losses = scalars.get('loss', ((), ()))
    if not losses:
        return [Finding(PROBLEM, 'the log has no loss: the run ended before its start')]
    for step, loss in zip(steps, losses):
        if not math.isfinite(loss):
            helps = 'A lower learning rate, clip_grad, or a run without --amp.'
            return [Finding(PROBLEM, f'the loss is {loss} at step {step}', helps)]
    if len(losses) < ENOUGH:
        text = f'values logged: {len(losses)}; to judge a course takes {ENOUGH}'
        return [Finding(NOTE, text, 'default_hooks.logger.interval logs more often.')]
    start, end = _ends(losses)
    text = f'the loss went from {start:.3f} to {end:.3f}'
    uniform = _values(scalars, 'monitor/uniform_entropy')
    if start - end > MOVED * abs(start):
        if uniform and end >= uniform[-1]:
            text = (
                f'{text}, but not below {uniform[-1]:.3f}, where a network says the '
                'same of all images: it is not learning yet'
            )
            return [Finding(NOTE, text, 'More epochs; a larger batch.')]
        return [Finding(OK, text)]
    helps = (
        'A longer warm-up or another learning rate; a larger batch; a lower tau_b; '
        'more epochs, if the run is short.'
    )
    return [Finding(PROBLEM, f'{text}: it never left its start', helps)]


def _entropies(scalars: Mapping[str, Course]) -> list[Finding]:
    a, b = (_values(scalars, f'entropy_{name}') for name in 'ab')
    if min(len(a), len(b)) < ENOUGH:
        return []
    (a_start, a_end), (_, b_end) = _ends(a), _ends(b)
    text = f'entropies at the end: A {a_end:.2f}, B {b_end:.2f} nats'
    helps = (
        'A lower tau_b (below 0.075 for ResNet, 0.1 for ViT) with balancing on; a '
        'lower learning rate or a longer warm-up; a larger batch.'
    )
    # A starts close to the uniform distribution, whose entropy the log does not hold.
    if min(a_end, b_end) > max(a_start, *a) - SHARPER:
        text = f'{text}: both are uniform, so that nothing is learned'
        return [Finding(PROBLEM, text, helps)]
    if b_end > a_end - SHARPER:
        text = (
            f'{text}: the targets B are no sharper than A, so that they teach nothing'
        )
        return [Finding(PROBLEM, text, helps)]
    rise = _rise(b[len(b) // 5 :])
    if rise > RISE:
        text = (
            f'{text}: B became flatter by {rise:.1f} nats during the run, as in runs '
            'that drift towards uniform targets'
        )
        helps = 'A lower tau_b (0.03) or learning rate; with local views, a teacher.'
        return [Finding(NOTE, text, helps)]
    return [Finding(OK, f'{text}: B is sharper than A, as it should be')]


def _rise(values: Sequence[float]) -> float:
    """Largest rise above the lowest value before it, both medians of five values."""
    rise, lowest = 0.0, math.inf
    for value in (median(values[i : i + 5]) for i in range(len(values) - 4)):
        lowest = min(lowest, value)
        rise = max(rise, value - lowest)
    return rise


def _learning_rate(scalars: Mapping[str, Course]) -> list[Finding]:
    rates = _values(scalars, 'lr') or _values(scalars, 'base_lr')
    if len(rates) < ENOUGH:
        return []
    tenth = rates[-max(2, len(rates) // 10) :]
    if tenth[-1] > tenth[0] and tenth[-1] == max(rates):
        text = f'the learning rate still rises at the end ({tenth[-1]:.3g})'
        helps = (
            'If the run is over, its schedule was made for a longer one: '
            '--cfg-options train_cfg.max_epochs=N rescales the schedules of a recipe.'
        )
        return [Finding(PROBLEM, text, helps)]
    text = f'the learning rate rose to {max(rates):.3g} and ended at {rates[-1]:.3g}'
    return [Finding(OK, text)]


def _gradients(scalars: Mapping[str, Course]) -> list[Finding]:
    norms = _values(scalars, 'grad_norm')
    finite = [norm for norm in norms if math.isfinite(norm)]
    if len(finite) < ENOUGH:
        return []
    usual = median(finite)
    high = sum(not norm <= SPIKE * usual for norm in norms) / len(norms)
    text = (
        f'the norm of the gradients is {usual:.3g} (median), at most {max(finite):.3g}'
    )
    if usual == 0:
        text = 'the gradients are zero: nothing is learned'
        return [
            Finding(PROBLEM, text, 'Layers that are not frozen, a loss with weight.')
        ]
    if high > SPIKES:
        text = f'{text}: {high:.0%} of the values are more than {SPIKE:.0f} times that'
        helps = 'optim_wrapper.clip_grad.max_norm=0.3; a longer warm-up.'
        return [Finding(PROBLEM, text, helps)]
    return [Finding(OK, text)]


def _waiting(scalars: Mapping[str, Course]) -> list[Finding]:
    waited, whole = (_values(scalars, name) for name in ('data_time', 'time'))
    if len(waited) < 2 or sum(whole) <= 0:
        return []
    # The first value has the start of the workers in it.
    share = sum(waited[1:]) / max(sum(whole[1:]), 1e-9)
    text = f'a step takes {median(whole):.2f} s, {share:.0%} of it waiting for data'
    if share < WAITING:
        return [Finding(OK, text)]
    return [Finding(PROBLEM, text, loading_help())]


def _accuracy(scalars: Mapping[str, Course]) -> list[Finding]:
    steps, tops = scalars.get('knn/top1', ((), ()))
    if len(tops) < 2:
        return []
    best = max(tops)
    text = f'k-NN accuracy went from {tops[0]:.1f} to {tops[-1]:.1f} %'
    if best > tops[-1] + 1 and best > 1.05 * tops[-1]:
        at = steps[list(tops).index(best)]
        return [Finding(NOTE, f'{text}; it was best at step {at}, {best:.1f} %')]
    return [Finding(OK, text)]
