"""Keys of a runner's config, and the values that are allowed at well-known ones."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable
from typing import Any

from mmengine.runner import Runner

RUNNER = frozenset(inspect.signature(Runner.__init__).parameters) - {'self', 'cfg'}
TOP = RUNNER | {'runner_type', 'custom_imports', 'model_wrapper_cfg', 'sync_bn'}
SCALARS = {'work_dir', 'load_from', 'resume', 'launcher', 'log_level', 'default_scope',
           'experiment_name', 'runner_type', 'sync_bn'}  # fmt: skip
LISTS = {'custom_hooks', 'param_scheduler', 'val_evaluator', 'test_evaluator'}


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda v: type(v) is int and v >= least


def is_number(v: Any) -> bool:
    """Whether a value is a number, which True and False are not."""
    return isinstance(v, (int, float)) and not isinstance(v, bool)


# Pattern of a dotted key, what is allowed there, and the check.
RULES: list[tuple[str, str, Callable[[Any], bool]]] = [
    (
        r'\w+_dataloader\.batch_size|train_cfg\.(max_epochs|max_iters|val_interval)'
        r'|optim_wrapper\.(\w+\.)?accumulative_counts|auto_scale_lr\.base_batch_size',
        'an integer of at least 1',
        _whole(1),
    ),
    (
        r'\w+_dataloader\.num_workers|param_scheduler(\.\w+)*\.begin',
        'an integer of at least 0',
        _whole(0),
    ),
    (
        r'optim_wrapper\.(\w+\.)?optimizer\.(lr|weight_decay)',
        'a finite number of at least 0',
        lambda v: is_number(v) and 0 <= v < math.inf,
    ),
    (
        r'optim_wrapper\.(\w+\.)?optimizer\.betas',
        'numbers from 0 to below 1, at least two',
        lambda v: (
            isinstance(v, (list, tuple))
            and len(v) >= 2
            and all(is_number(b) and 0 <= b < 1 for b in v)
        ),
    ),
    (
        r'optim_wrapper\.(\w+\.)?clip_grad\.(max_norm|clip_value)',
        'a number above 0',
        lambda v: is_number(v) and v > 0,
    ),
    (
        r'param_scheduler(\.\w+)*\.end',
        'an integer of at least 1',
        lambda v: _whole(1)(v) or v == math.inf,
    ),
    (
        r'param_scheduler(\.\w+)*\.by_epoch',
        'True or False',
        lambda v: isinstance(v, bool),
    ),
    (
        r'(default|custom)_hooks\.\w+\.interval',
        'an integer of at least 1, or -1 for never',
        lambda v: v == -1 or _whole(1)(v),
    ),
    (
        r'randomness\.seed',
        'None or an integer from 0 to 4294967295',
        lambda v: v is None or (_whole(0)(v) and v < 2**32),
    ),
    (
        'log_level',
        'a level of logging, such as INFO',
        lambda v: bool(v) and isinstance(logging.getLevelName(v), int),
    ),
    (
        'load_from',
        'a file, an address or None',
        lambda v: v is None or isinstance(v, str),
    ),
    (
        '|'.join(TOP - SCALARS - LISTS),
        'a dict',
        lambda v: v is None or isinstance(v, dict),
    ),
    (
        '|'.join(LISTS),
        'a list',
        lambda v: v is None or isinstance(v, (dict, list, tuple)),
    ),
]
