"""A compiled mmcv is kept and reused, but only if it is whole and has operators."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.test_setup.tools import load

mmcv_wheel = load('mmcv_wheel')
NAME = 'mmcv-2.1.0-cp311-cp311-linux_x86_64.whl'
OPERATORS = 'mmcv/_ext.cpython-311-x86_64-linux-gnu.so'


def write_wheel(path: Path, *files: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, 'w') as archive:
        for file in ('mmcv/__init__.py', *files):
            archive.writestr(file, 'content' * 100)
    return path


@pytest.fixture
def builds(monkeypatch):
    """Replaces the compiler; counts how often it was called."""
    calls = []

    def build(name, version, folder, target):
        calls.append(name)
        operators = () if target == mmcv_wheel.LITE else (OPERATORS,)
        return write_wheel(folder / 'wheel' / NAME, *operators)

    monkeypatch.setattr(mmcv_wheel, 'build', build)
    return calls


def test_compiles_once(tmp_path, builds):
    first = mmcv_wheel.get_wheel('mmcv', '2.1.0', tmp_path)
    assert mmcv_wheel.get_wheel('mmcv', '2.1.0', tmp_path) == first
    assert len(builds) == 1
    assert mmcv_wheel.has_operators(first)


def test_compiles_again_for_another_torch(tmp_path, builds, monkeypatch):
    first = mmcv_wheel.get_wheel('mmcv', '2.1.0', tmp_path)
    monkeypatch.setattr(mmcv_wheel.torch, '__version__', '2.1.3')
    assert mmcv_wheel.get_wheel('mmcv', '2.1.0', tmp_path) != first
    assert len(builds) == 2


def test_each_stack_has_its_own(tmp_path, builds):
    first = mmcv_wheel.get_wheel('mmcv', '2.1.0', tmp_path)
    second = mmcv_wheel.get_wheel('onedl-mmcv', '2.1.0', tmp_path)
    assert first != second
    assert builds == ['mmcv', 'onedl-mmcv']


def test_keeps_a_wheel_without_operators_apart(tmp_path, builds):
    lite = mmcv_wheel.get_wheel('onedl-mmcv', '2.3.6', tmp_path, lite=True)
    assert mmcv_wheel.has_operators(lite) is False
    whole = mmcv_wheel.get_wheel('onedl-mmcv', '2.3.6', tmp_path)
    assert mmcv_wheel.has_operators(whole)
    assert mmcv_wheel.get_wheel('onedl-mmcv', '2.3.6', tmp_path, lite=True) == lite
    assert len(builds) == 2


def test_packs_without_operators_where_torch_is_hidden(tmp_path):
    """setup.py of the fork leaves its operators out if it cannot import torch."""
    (tmp_path / 'setup.py').write_text(
        'import sys\n'
        'try:\n    import torch\n'
        'except ModuleNotFoundError:\n    print(sys.argv)\n'
    )
    with open(tmp_path / 'build.log', 'w') as log:
        program = ('-c', mmcv_wheel.WITHOUT_TORCH, 'bdist_wheel')
        mmcv_wheel.run_python(*program, log=log, cwd=tmp_path)
    assert (tmp_path / 'build.log').read_text() == "['setup.py', 'bdist_wheel']\n"


def test_operators_are_optimised():
    """The variable replaces Python's own flags in newer setuptools, -O3 included."""
    assert '-O' in mmcv_wheel.CFLAGS


def test_compiles_again_on_demand(tmp_path, builds):
    mmcv_wheel.get_wheel('mmcv', '2.1.0', tmp_path)
    mmcv_wheel.get_wheel('mmcv', '2.1.0', tmp_path, rebuild=True)
    assert len(builds) == 2


def test_does_not_trust_a_wheel_without_operators(tmp_path, builds):
    kept = mmcv_wheel.get_wheel('mmcv', '2.1.0', tmp_path)
    write_wheel(kept)
    assert mmcv_wheel.has_operators(mmcv_wheel.get_wheel('mmcv', '2.1.0', tmp_path))
    assert len(builds) == 2


def test_does_not_trust_a_truncated_wheel(tmp_path, builds):
    kept = mmcv_wheel.get_wheel('mmcv', '2.1.0', tmp_path)
    kept.write_bytes(kept.read_bytes()[:-50])
    assert mmcv_wheel.has_operators(mmcv_wheel.get_wheel('mmcv', '2.1.0', tmp_path))
    assert len(builds) == 2


def test_a_failed_build_ends_in_its_last_lines_and_the_log(tmp_path):
    with open(tmp_path / 'build.log', 'w') as log:
        log.write('nms.cpp: error: no such thing\n')
        log.flush()
        with pytest.raises(mmcv_wheel.BuildError) as error:
            mmcv_wheel.run_python('no_such_program.py', log=log)
    assert 'error: no such thing' in str(error.value)
    assert 'build.log' in str(error.value)
