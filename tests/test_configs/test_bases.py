"""The parts in configs/_base_ combine, and configs show every option."""

from __future__ import annotations

import inspect
import itertools
from collections import defaultdict
from dataclasses import fields
from pathlib import Path

import pytest
from mmengine.config import Config

from mmbam.datasets.transforms.view import View
from mmbam.registry import TRANSFORMS

CONFIGS = Path(__file__).resolve().parents[2] / 'configs'
BASE = CONFIGS / '_base_'


KINDS = ('datasets', 'models', 'schedules', 'hooks')
PARTS = {kind: sorted((BASE / kind).glob('*.py')) for kind in KINDS}
PARTS['runtimes'] = [BASE / 'default_runtime.py', *(BASE / 'visualizers').glob('*.py')]


def test_parts_of_different_kinds_set_different_keys():
    """mmengine refuses a config in which two bases set the same key."""
    keys = {
        path: set(Config.fromfile(path)) for paths in PARTS.values() for path in paths
    }
    for some, others in itertools.combinations(PARTS.values(), 2):
        for one, other in itertools.product(some, others):
            assert not keys[one] & keys[other], (one.name, other.name)


@pytest.mark.parametrize('number', [0, -1])
def test_one_part_of_each_kind_makes_a_config(number, tmp_path):
    path = tmp_path / 'combined.py'
    path.write_text(f'_base_ = {[str(paths[number]) for paths in PARTS.values()]}\n')
    cfg = Config.fromfile(path)
    assert cfg.train_dataloader and cfg.model and cfg.optim_wrapper and cfg.custom_hooks


def options_in_configs() -> dict[str, set[str]]:
    """The arguments of each registered class that some config sets."""
    found: dict[str, set[str]] = defaultdict(set)

    def walk(node: object) -> None:
        if isinstance(node, dict):
            found[node.get('type')] |= set(node)
            for view in node.get('views', ()):
                found['view'] |= set(view)
            node = list(node.values())
        if isinstance(node, (list, tuple)):
            for child in node:
                walk(child)

    for folder in ('_base_', 'bam', 'tiny'):
        for path in (CONFIGS / folder).rglob('*.py'):
            walk(Config.fromfile(path).to_dict())
    return found


def test_some_config_sets_each_argument_of_a_transform():
    shown = options_in_configs()
    TRANSFORMS.import_from_location()
    ours = {
        f'mmbam.{name}': kind
        for name, kind in TRANSFORMS.module_dict.items()
        if kind.__module__.startswith('mmbam.')
    }
    assert 'mmbam.MultiCrop' in ours
    for name, kind in ours.items():
        arguments = {
            argument.name
            for argument in inspect.signature(kind).parameters.values()
            if argument.kind is argument.POSITIONAL_OR_KEYWORD
            or argument.kind is argument.KEYWORD_ONLY
        }
        assert arguments <= shown[name], name
    assert {field.name for field in fields(View)} <= shown['view']
