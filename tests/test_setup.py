"""The set-up installs what is missing and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Stands for every program that the set-up calls. A wheel is a text that becomes mmcv's
# library of operators; the operators work if it says `good`.
FAKE = """#!/usr/bin/env bash
case "$0 $*" in
    *'print(*sys.version'*) echo "${FAKE_VERSION:-3.11.7}"; exit ;;
    *'-m pip config'*) echo "global.index-url='http://mirror'"; exit ;;
    *'-Ic import pip'* | *'-IW ignore -') exit ;;
    *'/uv --version') echo 'uv 0.13.8'; exit ;;
    *'-IW ignore - 2.'*) exec grep -qs good "$SITE/mmcv/_ext.so" ;;
esac
echo "${0##*/} $*" >>"$LOG"
case "$0 $*" in
    *'-m venv'*) mkdir -p "$SITE" "$VENV/bin"; cp "$0" "$VENV/bin/python"
        cp "$0" "$VENV/bin/uv" ;;
    *'-m pip wheel'*) echo "${FAKE_BUILD:-good}" >"${*: -2:1}/mmcv.whl" ;;
    *uninstall*) rm -r "$SITE/mmcv" ;;
    *'-r -') cat >>"$LOG"; mkdir -p "$SITE"/{mmcv,torch-2.dist-info}
        echo >"$SITE/mmcv/__init__.py" ;;
    *.whl) mkdir "$SITE/mmcv"; cp "${*: -1}" "$SITE/mmcv/_ext.so" ;;
esac
"""


@pytest.fixture
def set_up(tmp_path):
    """Runs the set-up on fake programs; returns what it said and what it called."""
    venv, log, python = tmp_path / 'venv', tmp_path / 'log', tmp_path / 'python3.11'
    python.write_text(FAKE)
    python.chmod(0o755)
    env = {**os.environ, 'VENV': venv, 'LOG': log, 'XDG_CACHE_HOME': tmp_path / 'cache'}
    env['CXX'] = 'true'
    env['SITE'] = venv / 'lib/python3.11/site-packages'

    def run(tier, stack='classic', **more):
        log.write_text('')
        command = [ROOT / 'tools/setup_env.sh', tier, stack, venv, python]
        env.update(more)
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert bool(done.returncode) == bool(done.stderr), done.stderr
        return done.stdout + done.stderr, log.read_text()

    run.site, run.stamp = env['SITE'], venv / 'mmbam-setup'
    run.cache = env['XDG_CACHE_HOME']
    return run


def test_the_second_call_does_nothing(set_up):
    said, called = set_up('core')
    assert 'is ready' in said and '--index-url http://mirror' in called
    assert 'torch==2.1.2\n' in called and 'mmcv-lite==' in called
    assert set_up('core') == ('', '')


def test_dense_puts_a_compiled_mmcv_in_the_place_of_mmcv_lite(set_up):
    set_up('core')
    _, called = set_up('dense')
    assert 'mmdet==' in called and '\nmmcv-lite==' not in called
    assert called.index('pip wheel') < called.index('uninstall') < called.index('.whl')
    assert set_up('dense') == set_up('core') == ('', '')


def test_transformers_has_neither_mmbam_nor_openmmlab(set_up):
    _, called = set_up('transformers', 'modern')
    assert called.endswith('-r requirements/transformers.txt\n')
    assert set_up('transformers', 'modern') == ('', '')


def test_mmcv_is_compiled_once_and_again_if_its_operators_do_not_work(set_up):
    set_up('dense')
    (set_up.site / 'mmcv/_ext.so').write_text('for another torch')
    said, called = set_up('dense')
    assert 'pip wheel' not in called and called.count('.whl') == 1
    (wheel,) = set_up.cache.rglob('mmcv==2.1.0-torch-2-cpu-*/*.whl')
    wheel.write_text('broken')
    (set_up.site / 'mmcv/_ext.so').write_text('broken')
    assert set_up('dense')[1].count('pip wheel') == 1
    wheel.write_text('broken')
    (set_up.site / 'mmcv/_ext.so').write_text('broken!')
    said, called = set_up('dense', FAKE_BUILD='broken')
    assert 'mmcv==2.1.0 do not work' in said and called.count('pip wheel') == 1


def test_an_interrupted_installation_is_repeated(set_up):
    set_up('core')
    set_up.stamp.write_text('installing\n')
    assert '--reinstall' in set_up('core')[1]
    (set_up.site / 'numpy-3.dist-info').mkdir()
    said, called = set_up('core')
    assert 'installing' in said and '--reinstall' not in called


def test_what_cannot_work_ends_in_one_sentence(set_up):
    said, _ = set_up('core', FAKE_VERSION='3.12.1')
    assert 'Python 3.11 is needed, ' in said and 'is 3.12.1: pass PYTHON=' in said
    (set_up.site / 'onedl_mmengine-1.dist-info').mkdir(parents=True)
    said, called = set_up('core', FAKE_VERSION='3.11.9')
    assert 'belongs to the modern stack: pass STACK=modern' in said and not called
    (set_up.site / 'onedl_mmengine-1.dist-info').rmdir()
    assert 'no environment of Python 3.11: remove it' in set_up('core')[0]
    done = subprocess.run(['make', 'core', 'STACK=new'], cwd=ROOT, capture_output=True)
    assert b"STACK must be classic or modern, not 'new'" in done.stderr


@pytest.mark.parametrize(
    'stack, folder', [('classic', '.venv'), ('modern', '.venv-modern')]
)
def test_make_and_the_tools_agree_on_the_environment_of_a_stack(
    stack, folder, tmp_path
):
    # The tests may run under a make that was given any of these.
    given = ('PYTHON', 'STACK', 'VENV', 'MAKEFLAGS', 'MAKEOVERRIDES', 'MFLAGS')
    env = {k: v for k, v in os.environ.items() if k not in given}
    run = dict(env={**env, 'STACK': stack}, capture_output=True, text=True)
    done = subprocess.run(['make', '-n', 'demo', 'PYTHON=py'], cwd=ROOT, **run)
    assert f"setup_env.sh core {stack} '{folder}' 'py'" in done.stdout
    assert f"'{folder}/bin/python' -m mmbam demo" in done.stdout
    (tmp_path / 'tools').mkdir()
    script = (ROOT / 'tools/env.sh').read_text() + 'echo $PYTHON'
    (tmp_path / 'tools/env.sh').write_text(script)
    done = subprocess.run(['bash', tmp_path / 'tools/env.sh'], **run)
    assert f"There is no {tmp_path / folder}: run 'make core" in done.stderr
    (tmp_path / folder / 'bin').mkdir(parents=True)
    (tmp_path / folder / 'bin/python').symlink_to('/bin/true')
    done = subprocess.run(['bash', tmp_path / 'tools/env.sh'], **run)
    assert done.stdout == f'{tmp_path / folder}/bin/python\n'
