"""The requirement files are complete and fit setup.py's and mmbam's ranges."""

from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mmbam import versions

from .tools import ROOT, load

FILES = ['build', 'core', 'dense', 'test']
INSTEAD = {'opencv-python': 'opencv-python-headless'}


def read(*names):
    paths = [str(ROOT / 'requirements' / f'{name}.txt') for name in names]
    return load('check').read_pins(paths)


@pytest.mark.parametrize('name', FILES)
def test_every_line_is_an_exact_pin(name):
    text = (ROOT / 'requirements' / f'{name}.txt').read_text()
    for line in text.splitlines():
        if line and not line.startswith('#'):
            (specifier,) = Requirement(line).specifier
            assert specifier.operator == '==' and '*' not in specifier.version, line


def test_no_package_stands_in_two_files():
    names = [name for file in FILES for name in read(file)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize('files', [FILES[:2], FILES], ids=['core', 'dense'])
def test_whatever_a_pinned_package_requires_is_pinned(files):
    """The set-up installs these files without looking for dependencies."""
    pins = read(*files)
    if metadata.version('torch').split('+')[0] != pins['torch']:
        pytest.skip('the tests run on another stack than the pinned one')
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


def test_pins_are_within_the_ranges_of_mmbam():
    pins = read(*FILES)
    for package in (*versions.CORE, *versions.DENSE):
        for name, span in package.ranges.items():
            if name in pins:
                assert versions.SpecifierSet(span).contains(pins[name]), name
