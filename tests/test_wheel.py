"""A wheel in an environment of its own, with the repository on no path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmbam.cli.main import VERBS
from tests.helpers.run import ROOT

pytestmark = pytest.mark.slow
SOURCES = (
    'configs', 'docs', 'mmbam', 'tools', 'model-index.yml', 'setup.py',
    'pyproject.toml', 'README.md', 'LICENSE', 'MANIFEST.in',
)  # fmt: skip
DEMO = ('--patches', 256, 96, '--scenes', 8, 4, '--epochs', 2)


def run(*command, cwd: Path) -> str:
    """Run a program that is told nothing about the repository; what it printed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={
            **{k: v for k, v in os.environ.items() if k != 'PYTHONPATH'},
            'OMP_NUM_THREADS': '1',
            'PIP_NO_INDEX': '1',
            'PIP_DISABLE_PIP_VERSION_CHECK': '1',
        },
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope='module')
def place(tmp_path_factory) -> Path:
    """A folder with an environment in ``venv``, and nothing else of the package."""
    place = tmp_path_factory.mktemp('wheel')
    source = place / 'source'
    source.mkdir()
    for name in SOURCES:
        ignore = shutil.ignore_patterns('__pycache__')
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(ROOT / name, source)
    pip = sys.executable, '-m', 'pip'
    run(
        *(*pip, 'wheel', '-q', '--no-deps', '--no-build-isolation', source),
        *('-w', place), cwd=place,
    )  # fmt: skip
    shutil.rmtree(source)
    run(sys.executable, '-m', 'venv', '--without-pip', place / 'venv', cwd=place)
    (site,) = place.glob('venv/lib/python*/site-packages')
    # The libraries of this environment, but not its .pth files, one of which may lead
    # to the repository.
    (site / 'libraries.pth').write_text(sysconfig.get_path('purelib'))
    (wheel,) = place.glob('*.whl')
    python = place / 'venv/bin/python'
    run(*pip, '--python', python, 'install', '-q', '--no-deps', wheel, cwd=place)
    return place


@pytest.fixture(scope='module')
def mmbam(place):
    """Runs the installed command in the folder."""

    def call(*words) -> str:
        return run(place / 'venv/bin/mmbam', *words, cwd=place)

    return call


@pytest.fixture(scope='module')
def demo(mmbam) -> str:
    return mmbam('demo', '--out', 'demo', *DEMO)


def test_the_package_is_that_of_the_wheel(place):
    program = 'import mmbam, sys; print(mmbam.__file__, *sys.path, sep="\\n")'
    found, *paths = run(
        place / 'venv/bin/python', '-c', program, cwd=place
    ).splitlines()
    assert Path(found).is_relative_to(place)
    assert not any(Path(path).resolve() == ROOT for path in paths if path)


def test_the_demo_makes_its_page(place, demo):
    assert 'trained teacher' in demo
    assert (place / 'demo/index.html').stat().st_size > 10_000


def test_a_config_that_inherits_from_ours_trains_and_is_evaluated(place, mmbam, demo):
    (place / 'data').mkdir()
    (place / 'data/world').symlink_to(place / 'demo/world')
    (place / 'mine.py').write_text(
        "_base_ = 'mmbam::tiny/bam_resnet_32px.py'\n"
        'train_dataloader = dict(\n'
        '    batch_size=32, num_workers=0, persistent_workers=False)\n'
    )
    mmbam('train', 'mine.py', '--cfg-options', 'train_cfg.max_epochs=1')
    data = 'data/world/imagenet'
    folders = '--train', f'{data}/train', '--test', f'{data}/val', '--size', 32
    by_name = 'mmbam::tiny/bam_resnet_32px.py'
    said = mmbam('knn', by_name, 'work_dirs/mine/epoch_1.pth', *folders)
    assert '20-NN: top-1' in said


def test_configs_of_the_comparison_are_found(mmbam):
    assert 'barlowtwins, byol' in ' '.join(mmbam('compare', '--help').split())


def test_help_leads_to_the_documentation(place, mmbam):
    *_, folder = mmbam('--help').split()
    folder = Path(folder)
    assert folder.is_relative_to(place) and (folder / 'export.md').is_file()


def test_mmengine_finds_a_config_by_its_name(place):
    program = (
        'import mmbam\n'
        'from mmengine.hub import get_config\n'
        'print(get_config("mmbam::bam/vit-b16_300e.py").model.type)\n'
    )
    said = run(place / 'venv/bin/python', '-c', program, cwd=place)
    assert said.splitlines()[-1] == 'mmbam.BAM'


@pytest.mark.skipif('pretrain' not in VERBS, reason='there is no verb `pretrain` yet')
def test_pretrains_on_64_images(place, mmbam):
    rng = np.random.default_rng(0)
    (place / 'images').mkdir()
    for i in range(64):
        pixels = rng.integers(0, 256, (40, 40, 3), np.uint8)
        Image.fromarray(pixels).save(place / 'images' / f'{i}.png')
    mmbam('pretrain', 'images', '--epochs', 1, '--out', 'pretrained')
    assert list((place / 'pretrained').glob('*.pth'))
