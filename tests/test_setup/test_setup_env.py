"""The set-up refuses early what cannot work and mends what does not fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.test_setup.tools import ROOT, load

setup_env = load('__main__')


class Recorder(setup_env.Environment):
    """An environment whose problems are given and whose pip only takes notes."""

    def __init__(self, folder, *findings, stack='classic'):
        super().__init__(folder, stack)
        folder.mkdir(exist_ok=True)
        self.findings, self.thorough, self.log = list(findings), [], []

    def ensure(self):
        pass

    def problems(self, part, thorough):
        self.thorough.append(thorough)
        return self.findings.pop(0)

    def pip(self, command, *args, purpose):
        names = [str(a).split('==')[0] for a in args if not str(a).startswith('-')]
        self.log.append((command, names))


@pytest.fixture(autouse=True)
def wheels(monkeypatch):
    """Stands for the compiler; notes whether a kept wheel was good enough."""
    rebuilds = []

    def get(env, name, version, lite, rebuild):
        rebuilds.append(rebuild)
        return f'{name}-lite.whl' if lite else f'{name}.whl'

    monkeypatch.setattr(setup_env, 'get_mmcv_wheel', get)
    return rebuilds


def test_a_verified_environment_is_only_looked_at(tmp_path):
    env = Recorder(tmp_path, {'timm': 'is not installed'}, {}, {})
    setup_env.set_up(env, 'core')
    assert env.log == [('install', ['timm'])]
    setup_env.set_up(env, 'core')
    assert len(env.log) == 1, 'nothing more to install'
    assert env.thorough == [True, True, False]


def test_changed_requirements_are_verified_anew(tmp_path, monkeypatch):
    env = Recorder(tmp_path, {}, {})
    setup_env.set_up(env, 'core')
    monkeypatch.setattr(setup_env, 'fingerprint', lambda *_: 'another')
    setup_env.set_up(env, 'core')
    assert env.thorough == [True, True]


def test_mmcv_takes_the_place_of_mmcv_lite(tmp_path, wheels):
    first = {'mmcv': setup_env.MISSING, 'mmcv-lite': 'writes into the folder of mmcv'}
    env = Recorder(tmp_path, first, {})
    setup_env.set_up(env, 'dense')
    assert env.log == [('uninstall', ['mmcv-lite']), ('install', ['mmcv.whl'])]
    assert wheels == [False]


def test_broken_mmcv_gives_way_to_mmcv_lite_where_that_is_enough(tmp_path, wheels):
    env = Recorder(tmp_path, {'mmcv': 'has a missing or changed file'}, {})
    setup_env.set_up(env, 'core')
    assert env.log == [('uninstall', ['mmcv']), ('install', ['mmcv-lite'])]
    assert wheels == []


def test_the_fork_of_mmcv_comes_without_operators_until_they_are_needed(tmp_path):
    missing = {'onedl-mmcv': setup_env.MISSING}
    env = Recorder(tmp_path, missing, {}, stack='modern')
    setup_env.set_up(env, 'core')
    assert env.log == [('install', ['onedl-mmcv-lite.whl'])]

    broken = {'onedl-mmcv': 'does not work: ModuleNotFoundError: mmcv._ext'}
    env = Recorder(tmp_path, broken, {}, stack='modern')
    setup_env.set_up(env, 'dense')
    assert env.log == [
        ('uninstall', ['onedl-mmcv']),
        ('install', ['onedl-mmcv.whl']),
    ]


@pytest.mark.parametrize('sign', ['record', 'package'])
def test_an_environment_of_the_other_stack_is_refused(tmp_path, sign):
    """Neither changed into this one nor filled up from it."""
    if sign == 'record':
        setup_env.Environment(tmp_path, 'modern').write_record(core='verified')
    else:  # made by hand, or by a set-up from before there were two stacks
        packages = tmp_path / 'lib/python3.11/site-packages'
        (packages / 'onedl_mmengine-0.10.12.dist-info').mkdir(parents=True)
    before = sorted(tmp_path.rglob('*'))
    with pytest.raises(setup_env.SetupError) as error:
        setup_env.set_up(setup_env.Environment(tmp_path, 'classic'), 'core')
    assert 'environment of the modern stack: pass STACK=modern' in str(error.value)
    assert sorted(tmp_path.rglob('*')) == before
    setup_env.Environment(tmp_path, 'modern').require_stack()


def test_an_environment_from_before_the_stacks_is_classic(tmp_path):
    env = setup_env.Environment(tmp_path, 'classic')
    env.record.write_text(json.dumps({'core': 'verified'}))
    packages = tmp_path / 'lib/python3.11/site-packages'
    (packages / 'mmengine-0.10.7.dist-info').mkdir(parents=True)
    env.require_stack()
    with pytest.raises(setup_env.SetupError, match='of the classic stack'):
        setup_env.Environment(tmp_path, 'modern').require_stack()


def test_a_kept_wheel_that_does_not_work_is_compiled_anew_once(tmp_path, wheels):
    broken = {'mmcv': 'does not work: ImportError: undefined symbol'}
    env = Recorder(tmp_path, broken, broken, {})
    setup_env.set_up(env, 'dense')
    assert wheels == [False, True]

    env = Recorder(tmp_path / 'hopeless', broken, broken, broken)
    with pytest.raises(setup_env.SetupError, match='undefined symbol'):
        setup_env.set_up(env, 'dense')
    assert wheels == [False, True, False, True]


def test_damaged_packages_are_removed_before_they_are_installed(tmp_path):
    env = Recorder(tmp_path, {'timm': 'has a missing or changed file'}, {})
    setup_env.set_up(env, 'core')
    assert env.log == [('uninstall', ['timm']), ('install', ['timm'])]


def test_what_cannot_be_mended_ends_in_an_error_not_a_loop(tmp_path):
    broken = {'timm': 'does not work: ImportError: no'}
    env = Recorder(tmp_path, broken, broken)
    with pytest.raises(setup_env.SetupError, match='timm does not work'):
        setup_env.set_up(env, 'core')


def test_remains_of_an_interrupted_pip_are_cleared(tmp_path):
    env = Recorder(tmp_path)
    site = tmp_path / 'lib' / 'python3.11' / 'site-packages'
    for name in ('~orch', 'half-1.dist-info', 'whole-1.dist-info'):
        (site / name).mkdir(parents=True)
        (site / name / 'METADATA').touch()
    (site / 'whole-1.dist-info' / 'RECORD').touch()
    env.remove_remains()
    assert [path.name for path in site.iterdir()] == ['whole-1.dist-info']


def test_a_folder_of_somebody_else_is_not_touched(tmp_path):
    (tmp_path / 'thesis.tex').write_text('ten years of work')
    with pytest.raises(setup_env.SetupError, match='was not made by this set-up'):
        setup_env.Environment(tmp_path, 'classic').ensure()
    assert (tmp_path / 'thesis.tex').exists()


def test_an_environment_of_ours_that_does_not_start_is_made_anew(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(setup_env.subprocess, 'call', lambda cmd: made.append(cmd[-1]))
    env = setup_env.Environment(tmp_path / 'venv', 'modern')
    env.python.parent.mkdir(parents=True)
    env.python.symlink_to(tmp_path / 'a-python-that-was-removed')
    env.record.write_text(json.dumps({'core': 'verified'}))
    env.ensure()
    assert made == [env.folder]
    assert not env.python.is_symlink()
    assert json.loads(env.record.read_text()) == {'stack': 'modern'}


def test_another_python_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(setup_env.sys, 'version_info', (3, 13, 1))
    with pytest.raises(setup_env.SetupError, match=r'Python 3.11 is needed, .* 3.13.1'):
        setup_env.require_machine('core')


def test_only_the_dense_part_needs_a_compiler(monkeypatch):
    monkeypatch.setenv('CXX', 'no-such-compiler')
    setup_env.require_machine('core')
    with pytest.raises(setup_env.SetupError, match="'no-such-compiler' is needed"):
        setup_env.require_machine('dense')


def test_a_python_without_venv_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, 'ensurepip', None)
    with pytest.raises(setup_env.SetupError, match='without the venv module'):
        setup_env.require_machine('core')


def test_make_says_what_it_can_do_and_what_is_missing():
    run = dict(cwd=ROOT, capture_output=True, text=True)
    assert 'make demo' in subprocess.run(['make'], **run).stdout
    done = subprocess.run(['make', 'core', 'PYTHON='], **run)
    assert done.returncode and 'Python 3.11 was not found' in done.stderr
    done = subprocess.run(['make', 'core', 'STACK=new'], **run)
    assert done.returncode and "STACK must be classic or modern, not 'new'" in (
        done.stderr
    )


def test_every_stack_has_one_environment_everywhere():
    """In the Makefile, in the set-up and in what tools/*.sh start."""
    source = 'source tools/env.sh && echo $PYTHON'
    # The tests may run under a make that was given any of these.
    given = ('PYTHON', 'STACK', 'VENV', 'MAKEFLAGS', 'MAKEOVERRIDES', 'MFLAGS')
    env = {k: v for k, v in os.environ.items() if k not in given}
    run = dict(cwd=ROOT, capture_output=True, text=True)
    for stack, folder in setup_env.STACKS.items():
        command = ['make', '-n', 'demo', f'STACK={stack}', 'PYTHON=python3.11']
        made = subprocess.run(command, env=env, **run)
        assert f"tools/setup_env core --stack {stack} --venv '{folder}'" in made.stdout
        assert f"'{folder}/bin/python' tools/demo.py" in made.stdout
        command = ['bash', '-c', source]
        done = subprocess.run(command, env=dict(env, STACK=stack), **run)
        python = ROOT / folder / 'bin/python'
        if python.exists():
            assert done.stdout.strip() == str(python)
        else:
            assert done.returncode == 2 and str(ROOT / folder) in done.stderr
    done = subprocess.run(['bash', '-c', source], env=dict(env, STACK='new'), **run)
    assert done.returncode == 2 and 'must be classic or modern' in done.stderr
