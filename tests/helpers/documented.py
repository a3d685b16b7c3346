"""What the documentation says against what is there: each check asserts."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import re
import runpy
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
from mmengine.config import Config

from mmbam.cli.compare import options_of
from mmbam.cli.main import GROUPS, VERBS, build_parser
from mmbam.comparison import Settings
from mmbam.comparison.config import run_config
from mmbam.comparison.method import load_methods
from mmbam.engine.config_check import check_config
from mmbam.engine.schedules import rescale_schedules
from mmbam.utils.config import read_config, registries, walk
from tests.helpers.run import ROOT

# A config that stands for CONFIG, and the beginnings of others that are not there.
CONFIG = 'configs/bam/vit-s16_300e.py'
NOT_HERE = re.compile(r'MMDETECTION/|path/to/|runs/NAME/')
# Commands of others: only their name is known here.
FOREIGN = {'source', 'pre-commit', 'pytest', 'ruff', 'mypy', 'lint-imports', 'mim'}
# Keys of a config that `mmbam train` or mmengine reads, beside arguments of classes.
KEYS = {'type', '_scope_', 'compile', 'max_epochs', 'requires_grad'}


class Parsed(Exception):
    """Raised by a program's parser in place of going to work."""


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse ``mmbam WORDS``."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return build_parser(words).parse_args(words)
    except SystemExit:
        raise AssertionError(f'mmbam {" ".join(words)}\n{said.getvalue()}') from None


def known_options(words: Sequence[str]) -> set[str]:
    """The options of the verb that ``mmbam WORDS`` names."""
    depth = 2 if words[0] in GROUPS else 1
    known = GROUPS[words[0]] if depth == 2 else VERBS
    assert len(words) >= depth and words[depth - 1] in known, f'no verb {words}'
    parser = build_parser(words[:depth])
    for word in words[:depth]:
        parser = parser._subparsers._group_actions[0].choices[word]
    return set(parser._option_string_actions)


def check_span(span: str) -> None:
    """`mmbam VERB --option` in a text: the verb and its options exist."""
    words = re.sub(r'[\[\],]|\.\.\.', ' ', span).split()[1:]
    if not words or not re.fullmatch(r'[a-z]+', words[0]):
        return  # mmbam VERB, mmbam {knn,linear}, mmbam NAME, mmbam --help
    if words[0] in GROUPS and not re.fullmatch(r'[a-z]+', ' '.join(words[1:2])):
        return
    options = known_options(words)
    for word in words[1:]:
        name = word.partition('=')[0]
        assert not name.startswith('--') or name in options, f'{span}: no {name}'


def check_command(
    words: Sequence[str], page_files: Sequence[str], images: Path
) -> None:
    """A command of a shell block exists, and takes these arguments.

    Args:
        words (Sequence[str]): The command.
        page_files (Sequence[str]): Files of Python that its page shows.
        images (Path): A folder of images.
    """
    program, *rest = words
    if program == 'mmbam':
        args = parse(rest)
        if rest[0] == 'compare':
            check_methods(args, page_files, images)
        elif hasattr(args, 'config') and rest[0] != 'pretrain':
            path = args.config or CONFIG
            check_path(path, page_files)
            check_options(path, getattr(args, 'cfg_options', None) or {})
    elif program.startswith('tools/'):
        assert (ROOT / program).is_file(), f'no {program}'
        if 'slurm' in program:
            rest = rest[2:]
        verb = 'test' if 'test' in program else 'train'
        places = 1 if program == 'tools/dist_train.sh' else 0  # the number of devices
        check_command(['mmbam', verb, rest[0], *rest[1 + places :]], page_files, images)
    elif program == 'python' and rest[0].startswith('benchmarks/'):
        check_benchmark(*rest)
    elif program == 'make':
        for word in rest:
            name, equals, _ = word.partition('=')
            pattern = rf'^{name} [?:]?=' if equals else rf'^(\w+ )*{name}( \w+)*:'
            makefile = (ROOT / 'Makefile').read_text()
            assert re.search(pattern, makefile, re.MULTILINE), f'make knows no {word}'
    elif program == 'pip':
        extras = [e for w in rest for e in re.findall(r'\[(.*)\]', w)]
        setup = (ROOT / 'setup.py').read_text()
        for extra in ','.join(extras).split(',') if extras else ():
            assert f"'{extra}': [" in setup, f'no extra {extra}'
    elif program.startswith('--cfg-options'):  # a line of a list of options
        parse(['knn', CONFIG, 'CHECKPOINT', *words])
    elif program == 'python' or program in FOREIGN:
        for word in rest:
            if word.endswith('.py'):
                check_path(word, page_files)
    else:
        assert (ROOT / program).is_file(), f'no program {program}'


def check_path(path: str, page_files: Sequence[str]) -> None:
    """A config or script is in the repository, or the page shows how to write it."""
    if path in page_files or path == 'CONFIG' or NOT_HERE.match(path):
        return
    assert path.startswith('mmbam::') or (ROOT / path).is_file(), f'no file {path}'


def check_options(path: str, options: dict) -> None:
    """--cfg-options of a config are keys that something reads."""
    ours = path.startswith(('mmbam::', 'configs/'))
    path = path if ours else CONFIG
    path = path if path.startswith('mmbam::') else str(ROOT / path)
    cfg = _loaded(path)
    if options:
        cfg = read_config(path, options)
        rescale_schedules(cfg, path, options)
    check_config(cfg)
    for key in options:
        check_key(cfg, key)


@cache
def _loaded(path: str) -> Config:
    return read_config(path)


def check_key(cfg: Config, key: str) -> None:
    """A dotted key of a config is an argument of the class that it belongs to."""
    *places, last = key.split('.')
    node = cfg._cfg_dict
    for place in places:
        node = node[int(place)] if isinstance(node, list) else node[place]
    if isinstance(node, dict) and 'type' in node:
        check_arguments(node)
    else:
        assert places or last in KEYS or last in cfg, f'nothing reads {key}'


def check_arguments(call: dict, scope: str = 'mmpretrain') -> None:
    """A dict with a type has a known type, and only arguments that it takes."""
    kind = find_class(call['type'], scope)
    accepted = set(KEYS) | {'_delete_'}
    for one in inspect.getmro(kind) if inspect.isclass(kind) else (kind,):
        own = one.__dict__.get('__init__') if inspect.isclass(one) else one
        if own is None or own is object.__init__:
            continue
        parameters = inspect.signature(own).parameters.values()
        accepted |= {p.name for p in parameters}
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            break
    else:  # arguments go on to somewhere else
        return
    extra = set(call) - accepted
    assert not extra, f'{call["type"]} takes no {", ".join(sorted(extra))}'


@cache
def find_class(name: str, scope: str = 'mmpretrain') -> object:
    """The class that is registered under this name, or in this scope."""
    for registry in registries():
        for full in (name, f'{scope}.{name}'):
            with contextlib.suppress(ImportError):
                found = registry.get(full)
                if found is not None:
                    return found
    raise AssertionError(f'no type {name}')


def check_types(config: object, scope: str) -> None:
    """All dicts with a type in a config, as :func:`check_arguments`."""
    for path, value in walk(config):
        if not isinstance(value, dict) or not isinstance(value.get('type'), str):
            continue
        if not path.endswith(('roi_layer', 'nms')):  # named as in mmcv.ops
            check_arguments(value, scope)


def check_methods(
    args: argparse.Namespace, page_files: Sequence[str], images: Path
) -> None:
    """Methods of a comparison exist, and so do the keys of --set."""
    here = [m for m in args.methods if not NOT_HERE.match(m)]
    assert all(Path(m).name in page_files for m in args.methods if m not in here)
    methods = {method.name: method for method in load_methods(here)}
    for name, changes in options_of(args.set, here).items():
        settings = Settings(
            str(images), epochs=1, batch_size=4, options={name: changes}
        )
        cfg = run_config(methods[name], settings, 0, 1, 'out')
        for key in changes:
            check_key(cfg, key)


def check_benchmark(script: str, *words: str) -> None:
    """A benchmark's own parser takes the arguments."""
    real = argparse.ArgumentParser.parse_args

    def parse_args(self, *args, **kwargs):
        real(self, *args, **kwargs)
        raise Parsed

    assert (ROOT / script).is_file(), f'no {script}'
    said = io.StringIO()
    with (
        mock.patch.object(argparse.ArgumentParser, 'parse_args', parse_args),
        mock.patch.object(sys, 'argv', [script, *words]),
        mock.patch.object(sys, 'path', [*sys.path]),
        contextlib.redirect_stderr(said),
    ):
        try:
            with pytest.raises(Parsed):
                runpy.run_path(str(ROOT / script), run_name='__main__')
        except SystemExit:
            raise AssertionError(said.getvalue()) from None


def check_name(name: str) -> None:
    """`mmbam.X` in a text is a registered class, a verb, a module or in a module."""
    if re.match(r'mmbam\.[A-Z]\w+$', name):
        find_class(name)
        return
    module, _, last = name.rpartition('.')
    if module == 'mmbam' and last in VERBS:
        return
    try:
        importlib.import_module(name)
    except ImportError:
        assert hasattr(importlib.import_module(module), last), f'no {name}'
