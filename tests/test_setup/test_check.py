"""The set-up's check finds what is broken in an environment, and only that."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from tests.test_setup.tools import load

check = load('check')


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, seen instead of the real one."""
    folder = tmp_path / 'site-packages'
    folder.mkdir()
    distributions = metadata.distributions
    monkeypatch.setattr(
        check.metadata, 'distributions', lambda: distributions(path=[str(folder)])
    )
    return folder


def add(site: Path, name: str, version: str, files: dict[str, str]) -> None:
    """Install a package as pip does."""
    info = site / f'{name.replace("-", "_")}-{version}.dist-info'
    info.mkdir()
    record = [f'{info.name}/METADATA,,']
    for file, content in files.items():
        path = site / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        record.append(f'{file},sha256=x,{len(content)}')
    (info / 'METADATA').write_text(f'Name: {name}\nVersion: {version}\n')
    (info / 'INSTALLER').write_text('pip\n')
    (info / 'RECORD').write_text('\n'.join(record) + '\n')
    (info / 'direct_url.json').write_text('{"url": "file:///repository"}')


@pytest.fixture
def find(site, tmp_path, monkeypatch):
    """Compare with a small requirement file; imports all work unless told."""

    def find(dense=True, pins='a==1\n', broken=None, repository='/repository'):
        file = tmp_path / 'pins.txt'
        file.write_text(pins + 'mmcv-lite==2\n' + ('mmcv==2\n' if dense else ''))
        monkeypatch.setattr(check, 'broken_imports', lambda *_: broken or {})
        return check.find_problems(dense, [str(file)], repository, True)

    add(site, 'a', '1', {'a/__init__.py': 'x = 1'})
    add(site, 'mmbam', '0', {})
    return find


def test_nothing_is_wrong_with_a_whole_environment(site, find):
    add(site, 'mmcv', '2', {'mmcv/__init__.py': '', 'mmcv/_ext.so': 'binary'})
    assert find() == {}
    assert find(dense=False) == {}, 'mmcv can all that mmcv-lite can'


def test_finds_missing_packages_and_other_versions(site, find):
    add(site, 'mmcv', '1', {})
    problems = find(pins='a==3\nb==1\n')
    assert problems == {
        'a': 'is 1 instead of 3',
        'b': 'is not installed',
        'mmcv': 'is 1 instead of 2',
    }


def test_leaves_lines_for_other_machines_alone(site, find):
    add(site, 'mmcv', '2', {})
    assert find(pins="b==1 ; platform_system == 'nowhere'\n") == {}


def test_finds_operators_that_were_removed(site, find):
    add(site, 'mmcv', '2', {'mmcv/__init__.py': '', 'mmcv/_ext.so': 'binary'})
    (site / 'mmcv' / '_ext.so').unlink()
    assert '_ext.so' in find()['mmcv']


def test_finds_truncated_files(site, find):
    add(site, 'mmcv', '2', {})
    (site / 'a' / '__init__.py').write_text('x')
    assert 'missing or changed' in find()['a']


def test_finds_packages_that_pip_did_not_finish(site, find):
    add(site, 'mmcv', '2', {})
    record = site / 'a-1.dist-info' / 'RECORD'
    record.write_text(record.read_text()[:-1] + 'x\n')
    assert find() == {'a': 'was installed only in part'}
    record.unlink()
    assert find() == {'a': 'was installed only in part'}


def test_a_file_of_two_packages_may_be_of_either(site, find):
    add(site, 'mmcv', '2', {'tests/__init__.py': ''})
    add(site, 'stranger', '2', {'tests/__init__.py': '# of a stranger'})
    assert find() == {}


def test_finds_mmcv_lite_beside_or_instead_of_mmcv(site, find):
    add(site, 'mmcv-lite', '2', {'mmcv/__init__.py': ''})
    assert set(find()) == {'mmcv', 'mmcv-lite'}
    assert find(dense=False) == {}
    add(site, 'mmcv', '2', {'mmcv/__init__.py': ''})
    assert set(find()) == {'mmcv', 'mmcv-lite'}
    assert set(find(dense=False)) == {'mmcv', 'mmcv-lite'}


def test_finds_mmbam_of_another_clone(site, find):
    add(site, 'mmcv', '2', {})
    assert set(find(repository='/elsewhere')) == {'mmbam'}


def test_tries_imports_only_once_all_else_fits(site, find):
    broken = {'mmcv': 'does not work'}
    assert find(broken=broken) == {'mmcv': 'is not installed'}
    add(site, 'mmcv', '2', {})
    assert find(broken=broken) == broken


def test_reports_an_operator_library_for_another_torch(monkeypatch):
    def fail():
        raise ImportError('undefined symbol: _ZN3c10')

    monkeypatch.setattr(check, 'try_operators', fail)
    problems = check.broken_imports(['mmcv'], dense=True)
    assert problems == {'mmcv': 'does not work: ImportError: undefined symbol: _ZN3c10'}


def test_operators_work_where_the_tests_run():
    check.try_operators()
