"""Check a config before anything is built: keys, kinds and ranges of values."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import math
import os
import re
from collections.abc import Callable
from typing import Any

from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from mmengine.runner import Runner
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.utils.data import DataLoader

from mmbam.utils.config import all_types, close, registries, walk
from mmbam.utils.errors import InputError

from .config_rules import RULES, SCALARS, TOP, is_number

# Keys of a loader that the runner takes before it calls DataLoader.
OF_RUNNER = {'dataset', 'sampler', 'batch_sampler', 'num_batch_per_epoch'}
LOADERS = tuple(f'{split}_dataloader' for split in ('train', 'val', 'test'))
# Types that libraries look up with an error that does not name them.
NAMED = ('optimizer', 'collate_fn', 'norm_cfg', 'act_cfg', 'conv_cfg')
TRIPLES = (
    ('train_dataloader', 'train_cfg', 'optim_wrapper'),
    *((f'{s}_dataloader', f'{s}_cfg', f'{s}_evaluator') for s in ('val', 'test')),
)


def check_config(cfg: Config) -> None:
    """Refuse a config with a mistake that can be told from the config alone.

    Unknown keys at the top are variables of the user, unless they resemble a key of the
    runner. Arguments of classes are checked where they are built.

    Raises:
        InputError: Names the key, what it holds, and what is allowed.
    """
    for key, value in cfg.items():
        if key not in TOP:
            _check_misspelled(key, value)
    if not isinstance(cfg.get('model'), dict):
        raise InputError(
            f'{cfg.filename!r} must have model=dict(...), but got {cfg.get("model")!r}.'
        )
    scope = cfg.get('default_scope') or 'mmengine'
    known = {'mmengine', *(s for r in registries() for s in r.children)}
    # mmengine imports a project of this name when it needs it.
    if scope not in known and importlib.util.find_spec(scope) is None:
        raise InputError(
            f'default_scope must be the name of a project that is installed, '
            f'but got {scope!r}{close(scope, known)}.'
        )
    known_keys = {key: cfg[key] for key in cfg if key in TOP}
    for path, value in walk(known_keys):
        for pattern, allowed, check in RULES:
            if re.fullmatch(pattern, path) and not check(value):
                raise InputError(f'{path} must be {allowed}, but got {_short(value)}.')
        if isinstance(value, float) and math.isnan(value):
            raise InputError(f'{path} must be a number, but got nan.')
    _check_triples(cfg)
    _check_calls(cfg)
    for path, value in walk(cfg.get('param_scheduler') or [], 'param_scheduler'):
        if isinstance(value, dict):
            begin, end = value.get('begin', 0), value.get('end', math.inf)
            if end <= begin:
                raise InputError(
                    f'{path}.end must be above {path}.begin, but got begin={begin} and '
                    f'end={end}.'
                )
    with DefaultScope.overwrite_default_scope(scope):
        for path, value in walk(known_keys):
            if isinstance(value, dict) and isinstance(value.get('type'), str):
                _check_kinds(path, value)


def schedule_warnings(cfg: Config, max_epochs: int, max_iters: int) -> list[str]:
    """Say where schedules of learning rates do not fit the length of a run.

    There is a sentence for each schedule that ends after the run, or for the last one
    if it ends before.
    """
    schedules = cfg.get('param_scheduler') or []
    schedules = [schedules] if 'type' in schedules else schedules
    if isinstance(schedules, dict):  # of several optimizers
        return []
    found, last = [], {True: 0, False: 0}
    for index, schedule in enumerate(schedules):
        by_epoch = schedule.get('by_epoch', True)
        length, unit = (max_epochs, 'epochs') if by_epoch else (max_iters, 'iterations')
        end = schedule.get('end', math.inf)
        name = f'param_scheduler.{index} ({schedule.get("type")})'
        last[by_epoch] = max(last[by_epoch], length if end == math.inf else end)
        if end == math.inf:
            end = schedule.get('begin', 0) + schedule.get('T_max', 0)
        if end > length:
            found.append(
                f'{name} ends after {end} {unit}, but the run has {length}: '
                'it will stop before the schedule does.'
            )
    share = max(last[True] / max(max_epochs, 1), last[False] / max(max_iters, 1))
    if schedules and not found and share < 1:
        found.append(
            f'The schedules of param_scheduler end after {share:.0%} of the run: '
            'from then on the values stay as they are.'
        )
    return found


def _check_misspelled(key: str, value: Any) -> None:
    container = isinstance(value, (dict, list, tuple))
    known = TOP if container else TOP & SCALARS
    match = difflib.get_close_matches(key, known, n=1, cutoff=0.79)
    # A variable such as gallery_dataloader is further from any key than a slip.
    if match and (
        _one_slip(key, match[0]) or difflib.get_close_matches(key, match, 1, 0.91)
    ):
        raise InputError(
            f'The config has a key {key!r}, which nothing reads: did you mean '
            f'{match[0]!r}? (Give a variable of your own another name.)'
        )


def _one_slip(a: str, b: str) -> bool:
    """Whether one letter is missing, added, wrong, or swapped with the next."""
    start = len(os.path.commonprefix([a, b]))
    a, b = a[start:], b[start:]
    swapped = a[:2] == b[:2][::-1] and a[2:] == b[2:]
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or swapped


def _check_triples(cfg: Config) -> None:
    for names in TRIPLES:
        absent = [name for name in names if cfg.get(name) is None]
        if 0 < len(absent) < len(names):
            given = [name for name in names if name not in absent]
            raise InputError(
                f'{" and ".join(names)} belong together, but the config has '
                f'{" and ".join(given)} and lacks {" and ".join(absent)}.'
            )


def _check_calls(cfg: Config) -> None:
    """Check the keys of what is not built by a registry."""
    loader = _parameters(DataLoader) | OF_RUNNER
    clip = (cfg.get('optim_wrapper') or {}).get('clip_grad') or {}
    of_clip = clip_grad_value_ if clip.get('type') == 'value' else clip_grad_norm_
    for place, given, keys in (
        *((name, cfg.get(name), loader) for name in LOADERS),
        ('randomness', cfg.get('randomness'), _parameters(Runner.set_randomness)),
        ('auto_scale_lr', cfg.get('auto_scale_lr'), {'base_batch_size', 'enable'}),
        ('optim_wrapper.clip_grad', clip, _parameters(of_clip) | {'type'}),
    ):
        keys = keys - {'self', 'parameters'}
        for key in set(given or {}) - keys:
            raise InputError(
                f'{place} has no {key!r}{close(key, keys)}; allowed are '
                f'{", ".join(sorted(keys))}.'
            )


def _check_kinds(path: str, node: dict) -> None:
    """Compare numbers and words in a config with what the class takes."""
    cls = _find(node['type'])
    if cls is None and path.rpartition('.')[2] in NAMED:
        raise InputError(
            f'{path}.type must name a class of the registry, but got '
            f'{node["type"]!r}{close(node["type"], all_types())}.'
        )
    try:
        parameters = inspect.signature(cls).parameters if cls else {}
    except (TypeError, ValueError):  # written in C
        return
    ours = getattr(cls, '__module__', '').startswith('mmbam.')
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        _check_handed_on(path, node, cls)
    for key, value in node.items():
        parameter = parameters.get(key)
        if parameter is None or value is None or key == 'type':
            continue
        wanted = _kind(parameter, ours)
        if wanted is int and ours:
            fits = type(value) is int
        elif wanted in (int, float):
            fits = not isinstance(value, str) if not ours else is_number(value)
        else:
            continue
        if not fits:
            name = 'an integer' if wanted is int else 'a number'
            raise InputError(
                f'{path}.{key} of {node["type"]} must be {name}, but got '
                f'{_short(value)}.'
            )


def _check_handed_on(path: str, node: dict, cls: Any) -> None:
    """Find misspelled arguments of a class that takes any, which may show late."""
    bases = [c.__init__ for c in getattr(cls, '__mro__', ()) if '__init__' in vars(c)]
    known = {name for init in bases[:-1] for name in _parameters(init)}
    for key in set(node) - known - {'type', '_scope_'}:
        match = difflib.get_close_matches(key, known, n=1, cutoff=0.9)
        if match:
            raise InputError(
                f'{path} ({node["type"]}) has no {key!r}: did you mean {match[0]!r}?'
            )


def _kind(parameter: inspect.Parameter, ours: bool) -> type | None:
    """Return int, float or None for a parameter, by annotation or else by default."""
    text = parameter.annotation
    text = text if isinstance(text, str) else getattr(text, '__name__', '')
    if ours:
        kinds = {'int': int, 'float': float, 'int | None': int, 'float | None': float}
        return kinds.get(text)
    default = parameter.default
    return type(default) if type(default) in (int, float) else None


def _find(name: str) -> Any:
    """Return the class that a type of the config names, or None."""
    scope = DefaultScope.get_current_instance().scope_name
    for registry in sorted(registries(), key=lambda one: one is not MODELS):
        # mmengine warns of a scope without this kind of registry. Looking into MODELS,
        # which is the first, imports the project.
        if registry is MODELS or scope in registry.children:
            with registry.switch_scope_and_registry(None) as scoped:
                found = scoped.get(name)
        else:
            found = registry.get(name)
        if found is not None:
            return found
    return None


def _parameters(function: Callable) -> set[str]:
    return set(inspect.signature(function).parameters)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f'{text[:77]}...'
