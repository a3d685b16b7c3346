"""The requirement files pin whatever the code imports or its packages require."""

import ast
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers.transformers_env import OTHER_PYTHON, need_transformers

ROOT = Path(__file__).parents[1]
FILES = ('build', 'core', 'dense', 'test')


def read_pins(stack, *names):
    """Versions by package."""
    files = [ROOT / 'requirements' / stack / f'{name}.txt' for name in names or FILES]
    lines = [line for file in files for line in file.read_text().splitlines()]
    pins = [Requirement(line) for line in lines if line and line[0] != '#']
    assert all(str(pin.specifier).startswith('==') for pin in pins)
    versions = {canonicalize_name(p.name): str(p.specifier)[2:] for p in pins}
    assert len(versions) == len(pins), 'a package stands in two files'
    return versions


def test_the_environment_with_transformers_holds_what_is_pinned():
    """uv chooses from the pins of the modern stack and those of the file."""
    need_transformers()
    lines = (ROOT / 'requirements/transformers.txt').read_text().splitlines()
    own = dict(line.split('==') for line in lines if '==' in line)
    pins = {**read_pins('modern', 'build', 'core'), **own}
    (site,) = Path(OTHER_PYTHON).parents[1].glob('lib/python*/site-packages')
    found = {
        canonicalize_name(one.metadata['name']): one.version
        for one in metadata.distributions(path=[str(site)])
    }
    assert {'torch', 'timm', *own} <= found.keys()
    for brought_by_python in ('pip', 'setuptools'):
        found.pop(brought_by_python, None)
    assert found.items() <= pins.items()


def read_running_pins(*names):
    """Pins of the stack that the tests run on."""
    torch = metadata.version('torch').split('+')[0]
    for stack in ('classic', 'modern'):
        if read_pins(stack)['torch'] == torch:
            return read_pins(stack, *names)
    pytest.skip('the tests run on another torch than the pinned ones')


def test_a_stack_is_either_the_releases_or_the_forks():
    assert not any(name.startswith('onedl-') for name in read_pins('classic'))
    assert not any(name.startswith('mm') for name in read_pins('modern'))


def test_whatever_the_code_imports_is_pinned():
    pins, imported = read_running_pins(), set()
    for folder in ('mmbam', 'tools', 'tests', 'benchmarks', 'configs'):
        for file in (ROOT / folder).rglob('*.py'):
            for node in ast.walk(ast.parse(file.read_text('utf-8'))):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.split('.')[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    imported.add(node.module.split('.')[0])
    distributions = metadata.packages_distributions()
    assert {'torch', 'mmengine', 'cv2', 'pytest'} <= imported
    for name in imported & set(distributions) - {'mmbam', 'tests'}:
        names = {canonicalize_name(other) for other in distributions[name]}
        assert name in sys.stdlib_module_names or names & set(pins), name


@pytest.mark.parametrize('names', [FILES[:2], FILES], ids=['core', 'dense'])
def test_whatever_a_pinned_package_requires_is_pinned(names):
    """The set-up installs these files without looking for dependencies."""
    pins = read_running_pins(*names)
    for name in set(pins) - {'mmcv-lite'}:  # mmcv is in its place where the tests run
        for line in map(Requirement, metadata.requires(name) or ()):
            if not line.marker or line.marker.evaluate({'extra': ''}):
                other = canonicalize_name(line.name)
                if other == 'opencv-python':  # the same without windows
                    other = 'opencv-python-headless'
                assert other in pins, f'{name} requires {line}'
                assert line.specifier.contains(pins[other]), f'{name} requires {line}'
