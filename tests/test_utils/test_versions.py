"""``import mmbam`` accepts the stacks it works with and names what does not fit."""

from __future__ import annotations

import subprocess
import sys
import types
from importlib import metadata
from pathlib import Path

import pytest

from mmbam.utils import versions

CLASSIC = {
    'torch': '2.1.2+cu121',
    'torchvision': '0.16.2+cu121',
    'mmengine': '0.10.7',
    'mmcv': '2.1.0',
    'mmpretrain': '1.2.0',
    'mmdet': '3.3.0',
    'mmsegmentation': '1.2.2',
}
FORKS = {
    'torch': '2.10.0',
    'torchvision': '0.25.0',
    'onedl-mmengine': '0.10.12',
    'onedl-mmcv': '2.3.6',
    'onedl-mmpretrain': '1.3.6',
    'onedl-mmdetection': '3.5.1',
    'onedl-mmsegmentation': '1.4.2',
}


@pytest.fixture
def install(monkeypatch):
    """Pretend that exactly these distributions are installed."""

    def pretend(dists: dict[str, str], modules: dict[str, str] | None = None):
        modules = modules or {}

        def version(name):
            if name not in dists:
                raise metadata.PackageNotFoundError(name)
            return dists[name]

        monkeypatch.setattr(versions.metadata, 'version', version)
        monkeypatch.setattr(versions.util, 'find_spec', modules.get)
        monkeypatch.setattr(
            versions.importlib,
            'import_module',
            lambda name: types.SimpleNamespace(__version__=modules[name]),
        )

    return pretend


@pytest.mark.parametrize('stack', [CLASSIC, FORKS], ids=['classic', 'forks'])
def test_accepts_both_stacks(install, stack):
    install(stack, {'mmcv._ext': 'there'})
    versions.require_core()
    versions.require_dense()


def test_accepts_lite_packages_for_pretraining(install):
    lite = {**CLASSIC, 'mmengine-lite': '0.10.7', 'mmcv-lite': '2.1.0'}
    del lite['mmengine'], lite['mmcv'], lite['mmdet'], lite['mmsegmentation']
    install(lite)
    versions.require_core()


def test_accepts_nightly_torch(install):
    install({**CLASSIC, 'torch': '2.9.0.dev20250601+cu128'})
    versions.require_core()


@pytest.mark.parametrize(
    'name, version, span',
    [
        ('torch', '2.0.1', '>=2.1'),
        ('torchvision', '0.15.2', '>=0.16'),
        ('mmengine', '0.8.0', '>=0.10.4,<1'),
        ('mmengine', '1.0.0', '>=0.10.4,<1'),
        ('mmcv', '1.7.2', '>=2.0,<2.4'),
        ('mmpretrain', '1.1.1', '>=1.2,<1.3'),
        ('mmpretrain', 'unknown', '>=1.2,<1.3'),
    ],
)
def test_names_package_version_and_range(install, name, version, span):
    install({**CLASSIC, name: version})
    with pytest.raises(ImportError) as error:
        versions.require_core()
    message = str(error.value)
    assert f'{name} {span}' in message
    assert f'{name} {version} is installed' in message
    assert message.count('. ') == 0, 'one sentence'


def test_names_the_fork_and_its_range(install):
    install({**FORKS, 'onedl-mmpretrain': '1.2.9'})
    with pytest.raises(ImportError, match=r'onedl-mmpretrain >=1.3, but onedl-mmp.* 1'):
        versions.require_core()


@pytest.mark.parametrize('name', ['torch', 'mmengine', 'mmcv', 'mmpretrain'])
def test_names_what_is_missing(install, name):
    install({k: v for k, v in CLASSIC.items() if k != name})
    with pytest.raises(
        ImportError, match=f'mmbam needs {name} >=.*, but {name} is mis'
    ):
        versions.require_core()


def test_names_all_that_does_not_fit_at_once(install):
    install({'torch': '2.1.2', 'torchvision': '0.16.2', 'mmpretrain': '1.1.1'})
    with pytest.raises(ImportError) as error:
        versions.require_core()
    first, second, third = str(error.value).splitlines()
    assert first.endswith('but mmengine is missing.')
    assert second.endswith('but mmcv is missing.')
    assert third.endswith('but mmpretrain 1.1.1 is installed.')


@pytest.mark.parametrize('found', [{}, {'mmcv': '2.1.0', 'mmcv-lite': '2.1.0'}])
def test_asks_the_module_where_metadata_is_ambiguous(install, found):
    """A checkout on the path has no metadata; mmcv over mmcv-lite has it twice."""
    base = {k: v for k, v in CLASSIC.items() if k != 'mmcv'}
    install({**base, **found}, {'mmcv': '2.1.0'})
    versions.require_core()
    install({**base, **found}, {'mmcv': '1.7.0'})
    with pytest.raises(ImportError, match='1.7.0 is installed'):
        versions.require_core()


@pytest.mark.parametrize('torch, numpy', [('2.2.2+cpu', '2.4.6'), ('2.1.2', '2.0.0')])
def test_refuses_numpy_2_for_a_torch_made_for_numpy_1(install, torch, numpy):
    """torch only warns, and fails at the first array."""
    install({**CLASSIC, 'torch': torch, 'numpy': numpy})
    with pytest.raises(ImportError) as error:
        versions.require_core()
    message = str(error.value)
    assert f'torch {torch}, but numpy {numpy} is' in message and '\n' not in message


def test_accepts_numpy_of_the_time_of_torch(install):
    for stack, numpy in ((CLASSIC, '1.26.4'), (FORKS, '2.2.6')):
        install({**stack, 'numpy': numpy})
        versions.require_core()


def test_dense_part_refuses_mmcv_that_mmdet_refuses(install):
    install({**CLASSIC, 'mmcv': '2.2.0'}, {'mmcv._ext': 'there'})
    versions.require_core()
    with pytest.raises(ImportError, match='<2.2 .*mmcv 2.2.0 is installed'):
        versions.require_dense()


def test_dense_part_needs_operators(install):
    install(CLASSIC)
    with pytest.raises(ImportError, match='compiled operators'):
        versions.require_dense()


def test_dense_part_looks_only_at_what_is_used(install):
    without = {k: v for k, v in CLASSIC.items() if k != 'mmsegmentation'}
    install(without, {'mmcv._ext': 'there'})
    versions.require_dense('mmdet')
    with pytest.raises(ImportError, match='mmseg is missing'):
        versions.require_dense('mmseg')


def test_import_is_refused_and_cheap():
    program = (
        'import sys, importlib.metadata as m; real = m.version\n'
        "fake = lambda n: '0.1' if real(n) and n.endswith('mmpretrain') else real(n)\n"
        'm.version = fake\n'
        'try:\n    import mmbam\n'
        'except ImportError as error:\n    print(error)\n'
        "print([n for n in ('torch', 'mmengine', 'mmpretrain') if n in sys.modules])"
    )
    command = [sys.executable, '-c', program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    sentence, imported = done.stdout.splitlines()
    assert sentence.endswith('mmpretrain 0.1 is installed.')
    assert imported == '[]'


@pytest.mark.parametrize(
    'started',
    [
        "sys.argv = ['/usr/bin/mmbam', 'doctor']",
        "sys.argv, sys.orig_argv = ['-m'], ['python', '-W', 'ignore', '-m', 'mmbam']",
    ],
    ids=['mmbam', 'python -m mmbam'],
)
def test_the_command_says_without_a_traceback_what_to_install(started):
    program = (
        'import sys, importlib.metadata as m; real = m.version\n'
        "fake = lambda n: '0.1' if real(n) and n.endswith('mmpretrain') else real(n)\n"
        'm.version = fake\n'
        f'{started}\n'
        'from mmbam.cli.main import main\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', program], capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stdout == ''
    sentence, where = done.stderr.splitlines()
    assert sentence.endswith('mmpretrain 0.1 is installed.')
    assert Path(where.removeprefix('How to install them: ')).is_file()
