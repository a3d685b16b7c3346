"""A method is a config: its model, its views, its hooks and a few words about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmbam.utils.config import read_config
from mmbam.utils.errors import InputError

from .settings import FOLDER

VIEWS = FOLDER / '_base_' / 'two_views.py'
FUNCTIONS = dict(max=max, min=min, round=round)


@dataclass
class Method:
    """A method to compare, as its config describes it.

    Args:
        path (Path): File of its config.
        config (dict): Its config, with formulas, without ``method``.
        title (str): Name to show.
        source (str): The paper. Defaults to unknown.
        own (str): What it does not share with other methods. Defaults to nothing.
        backbones (Sequence[str]): Types of backbones it can train. Defaults to all.
    """

    path: Path
    config: dict
    title: str
    source: str = '–'
    own: str = '–'
    backbones: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Name of the config, without ``.py``."""
        return self.path.stem

    def check_backbone(self, kind: str) -> None:
        """Refuse a type of backbone that the method cannot train."""
        if self.backbones and kind.split('.')[-1] not in self.backbones:
            raise InputError(
                f'{self.title} needs a backbone of type {" or ".join(self.backbones)}, '
                f'but got {kind}.'
            )


def method_names() -> list[str]:
    """Return the names of the methods in ``configs/compare``."""
    return sorted(path.stem for path in FOLDER.glob('*.py'))


def load_method(name: str | Path) -> Method:
    """Read the config of a method by its name in ``configs/compare`` or its path."""
    path = Path(name)
    if path.suffix != '.py':
        path = FOLDER / f'{name}.py'
    if not path.is_file():
        raise InputError(
            f'There is no method {str(name)!r}; give the path of a config or one of '
            f'{", ".join(method_names())}.'
        )
    config = read_config(path).to_dict()
    about = config.pop('method', {})
    known = {'title', 'source', 'own', 'backbones'}
    if not set(about) <= known or 'type' not in config.get('model', {}):
        raise InputError(
            f'{str(name)!r} must hold model=dict(type=...) and may hold method=dict() '
            f'with {", ".join(sorted(known))}; it holds {", ".join(config)} and '
            f'method=dict() with {", ".join(about) or "nothing"}.'
        )
    if 'train_pipeline' not in config:
        config['train_pipeline'] = two_views()
    return Method(path, config, **{'title': path.stem, **about})


def two_views() -> list[dict]:
    """Return the transforms of a method without a ``train_pipeline``."""
    return Config.fromfile(VIEWS).to_dict()['train_pipeline']


def load_methods(names: Sequence[str | Path]) -> list[Method]:
    """Read the configs of several methods, whose names and titles must differ."""
    if not names:
        raise InputError(f'Name a method to compare: {", ".join(method_names())}.')
    methods = [load_method(name) for name in names]
    for key in ('name', 'title'):
        seen = [getattr(method, key) for method in methods]
        twice = [one for one in seen if seen.count(one) > 1]
        if twice:
            raise InputError(
                f'Two methods have the {key} {twice[0]!r}: omit or rename one.'
            )
    return methods


def fill(config: Any, values: Mapping[str, Any]) -> Any:
    """Put values into a config: a string that begins with ``=`` is a formula.

    Formulas may use the values, ``max``, ``min`` and ``round``.
    """
    if isinstance(config, dict):
        return {key: fill(value, values) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return type(config)(fill(value, values) for value in config)
    if not (isinstance(config, str) and config.startswith('=')):
        return config
    try:
        # As safe as the config itself, which is a Python file.
        return eval(config[1:], {'__builtins__': {}, **FUNCTIONS, **values})
    except Exception as error:
        raise InputError(
            f'Formula {config!r} failed ({type(error).__name__}: {error}); it may use '
            f'{", ".join([*values, *FUNCTIONS])}.'
        ) from error
