"""The requirement files are complete and fit setup.py's and mmbam's ranges."""

import runpy
import sys
from importlib import metadata
from types import SimpleNamespace
from unittest import mock

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mmbam.utils import versions
from tests.test_setup.tools import ROOT, load

FILES = ['build', 'core', 'dense', 'test']
STACKS = ['classic', 'modern']
INSTEAD = {'opencv-python': 'opencv-python-headless'}

each_stack = pytest.mark.parametrize('stack', STACKS)


def read(stack, *names):
    paths = [str(ROOT / 'requirements' / stack / f'{name}.txt') for name in names]
    return load('check').read_pins(paths)


def running_stack():
    """The stack whose torch the tests run on."""
    torch = metadata.version('torch').split('+')[0]
    stacks = [stack for stack in STACKS if read(stack, 'core')['torch'] == torch]
    if not stacks:
        pytest.skip('the tests run on another torch than the pinned ones')
    return stacks[0]


@each_stack
@pytest.mark.parametrize('name', FILES)
def test_every_line_is_an_exact_pin(stack, name):
    text = (ROOT / 'requirements' / stack / f'{name}.txt').read_text()
    for line in text.splitlines():
        if line and not line.startswith('#'):
            (specifier,) = Requirement(line).specifier
            assert specifier.operator == '==' and '*' not in specifier.version, line


@each_stack
def test_no_package_stands_in_two_files(stack):
    names = [name for file in FILES for name in read(stack, file)]
    assert len(names) == len(set(names))


def test_no_package_of_one_stack_is_of_the_other_too():
    """But for what both need: a stack is OpenMMLab's releases or the forks."""
    classic, modern = (read(stack, *FILES) for stack in STACKS)
    assert not any(name.startswith('onedl-') for name in classic)
    assert not any(name.startswith('mm') for name in modern)


@pytest.mark.parametrize('files', [FILES[:2], FILES], ids=['core', 'dense'])
def test_whatever_a_pinned_package_requires_is_pinned(files):
    """The set-up installs these files without looking for dependencies."""
    pins = read(running_stack(), *files)
    for name in pins:
        if name == 'mmcv-lite':  # replaced by mmcv where the tests run
            continue
        for line in metadata.requires(name) or ():
            required = Requirement(line)
            if required.marker and not required.marker.evaluate({'extra': ''}):
                continue
            other = canonicalize_name(required.name)
            other = INSTEAD.get(other, other)
            assert other in pins, f'{name} requires {line}'
            assert required.specifier.contains(pins[other]), f'{name} requires {line}'


@each_stack
def test_pins_are_within_the_ranges_of_mmbam(stack):
    pins = read(stack, *FILES)
    for package in (*versions.CORE, *versions.DENSE):
        names = [name for name in package.ranges if name in pins]
        assert names, package.module
        for name in names:
            span = versions.SpecifierSet(package.ranges[name])
            assert span.contains(pins[name]), name


@each_stack
def test_pip_install_accepts_the_pins(stack):
    """`pip install -e .` with the extras of a stack changes none of its packages."""
    pins = read(stack, *FILES)
    lines = {'classic': ['classic', 'dense'], 'modern': ['onedl', 'onedl-dense']}
    extras = read_setup()['extras_require']
    required = read_setup()['install_requires'] + [
        line for extra in lines[stack] for line in extras[extra]
    ]
    for line in required:
        requirement = Requirement(line)
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), line


def read_setup():
    """What setup.py passes to setuptools."""
    passed = {}
    stand_in = SimpleNamespace(setup=passed.update, find_packages=lambda include: [])
    with mock.patch.dict(sys.modules, setuptools=stand_in):
        runpy.run_path(str(ROOT / 'setup.py'))
    return passed
