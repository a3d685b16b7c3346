"""The documentation holds together."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from mmbam.version import __version__
from tests.helpers.browser import complaints_about, needs_chromium
from tests.helpers.pages import PAGES, prose
from tests.helpers.run import ROOT

LINK = re.compile(r'\]\(([^)\s]+)\)')
HEADING = re.compile(r'^#+ (.+)$', re.MULTILINE)


def anchors(page):
    """The anchors of a page's headings, as GitHub forms them."""
    text = prose(page)
    titles = (re.sub(r'[^\w\- ]', '', title.lower()) for title in HEADING.findall(text))
    return {title.replace(' ', '-') for title in titles}


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_file_and_a_heading(page):
    text = prose(page)
    for link in LINK.findall(text):
        if link.startswith(('http://', 'https://')):
            continue
        path, _, anchor = link.partition('#')
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_changelog_has_a_section_for_this_version():
    assert f'\n## [{__version__}]' in (ROOT / 'CHANGELOG.md').read_text('utf-8')


def test_the_readme_is_short():
    assert len((ROOT / 'README.md').read_text('utf-8').split()) <= 900


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    """The site, which a warning would keep from being built."""
    pytest.importorskip('mkdocs', reason='the site needs mkdocs (make docs)')
    folder = tmp_path_factory.mktemp('site')
    command = [sys.executable, '-m', 'mkdocs', 'build', '--strict', '-q']
    env = {**os.environ, 'NO_MKDOCS_2_WARNING': '1', 'PYTHONPATH': str(ROOT)}
    done = subprocess.run(
        [*command, '-d', str(folder)], cwd=ROOT, env=env, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    return folder


def test_the_site_has_all_pages(site):
    pages = {page.stem for page in (ROOT / 'docs').glob('*.md')}
    assert pages | {'contributing', 'changelog'} <= {p.stem for p in site.iterdir()}
    api = (site / 'api.html').read_text('utf-8')
    assert 'Number V of views of each image.' in api and ':class:' not in api
    assert '_cls_attention' not in api, 'private functions are shown'
    assert '.md</a>' not in (site / 'data.html').read_text('utf-8'), 'no title'


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize('page', ['comparison', 'benchmarks', 'usage', 'changelog'])
def test_a_page_of_the_site_needs_no_sideways_scrolling(page, site, tmp_path):
    copy = tmp_path / 'site'
    shutil.copytree(site, copy)
    complaints = complaints_about(copy / f'{page}.html', copy)
    assert not [c for c in complaints if 'scrolls' in c]
