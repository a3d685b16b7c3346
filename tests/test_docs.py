"""The documentation holds together."""

import contextlib
import os
import re
import shutil
import subprocess
import sys

import pytest
from mmengine.config import Config

from mmbam.engine.config_check import check_config
from mmbam.version import __version__
from tests.helpers.photographs import write_photographs
from tests.helpers.run import ROOT

PAGES = [*ROOT.glob('*.md'), *(ROOT / 'docs').glob('*.md')]
LINK = re.compile(r'\]\(([^)\s]+)\)')
HEADING = re.compile(r'^#+ (.+)$', re.MULTILINE)


def anchors(page):
    """The anchors of a page's headings, as GitHub forms them."""
    text = re.sub(r'```.*?```', '', page.read_text('utf-8'), flags=re.DOTALL)
    titles = (re.sub(r'[^\w\- ]', '', title.lower()) for title in HEADING.findall(text))
    return {title.replace(' ', '-') for title in titles}


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_file_and_a_heading(page):
    text = re.sub(r'```.*?```', '', page.read_text('utf-8'), flags=re.DOTALL)
    for link in LINK.findall(text):
        if link.startswith(('http://', 'https://')):
            continue
        path, _, anchor = link.partition('#')
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_changelog_has_a_section_for_this_version():
    assert f'\n## [{__version__}]' in (ROOT / 'CHANGELOG.md').read_text('utf-8')


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip('mkdocs', reason='the site needs mkdocs (make docs)')
    command = [sys.executable, '-m', 'mkdocs', 'build', '--strict', '-q']
    env = {**os.environ, 'NO_MKDOCS_2_WARNING': '1', 'PYTHONPATH': str(ROOT)}
    done = subprocess.run(
        [*command, '-d', str(tmp_path)], cwd=ROOT, env=env, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    pages = {page.stem for page in (ROOT / 'docs').glob('*.md')}
    assert pages | {'contributing', 'changelog'} <= {p.stem for p in tmp_path.iterdir()}
    api = (tmp_path / 'api.html').read_text('utf-8')
    assert 'Number V of views of each image.' in api and ':class:' not in api


# A block below the comment `<!-- run -->` is run, and those of a page in one folder.
BLOCK = re.compile(r'<!-- run -->\n+```(\w+)\n(.*?)```', re.DOTALL)
RUNNABLE = [page for page in PAGES if BLOCK.search(page.read_text('utf-8'))]
# What stands for files of the reader: 64 images, and a run on them.
NAMES = dict(
    IMAGES='images',
    OUT='out',
    photos='images',
    CONFIG='run/config.py',
    CHECKPOINT='run/epoch_1.pth',
)
MMBAM = f'mmbam() {{ {sys.executable} -m mmbam "$@"; }}\n'


def run_shell(code, folder):
    done = subprocess.run(
        ['bash', '-c', f'set -e\n{MMBAM}{code}'],
        cwd=folder,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, code + done.stdout + done.stderr


@pytest.fixture(scope='module')
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp('reader')
    write_photographs(folder / 'images', 64)
    options = 'model.backbone.base_channels=16 model.backbone.stem_channels=16'
    run_shell(
        f'mmbam pretrain images --epochs 1 --out run --cfg-options {options}', folder
    )
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group('docs')
@pytest.mark.parametrize('page', RUNNABLE, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page, request, tmp_path):
    """As they stand, with files in the place of the names above."""
    text = page.read_text('utf-8')
    if 'bash' in dict(BLOCK.findall(text)):
        reader = request.getfixturevalue('reader')
        shutil.copytree(reader, tmp_path, dirs_exist_ok=True)
    names: dict = {}
    for language, code in BLOCK.findall(text):
        code = re.sub(r'\b[A-Za-z]+\b', lambda word: NAMES.get(word[0], word[0]), code)
        if language == 'bash':
            run_shell(code, tmp_path)
        elif '_base_ = ' in code:  # a config, whose name is in its first line
            if 'mmbam::benchmarks' in code:
                pytest.importorskip('mmdet')
                pytest.importorskip('mmseg')
            path = tmp_path / code.split()[1]
            path.write_text(code)
            check_config(Config.fromfile(path))
        else:
            with contextlib.chdir(tmp_path):
                exec(compile(code, str(page), 'exec'), names)
