"""The documentation holds together."""

import re

import pytest

from mmbam.version import __version__
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
