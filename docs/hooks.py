"""What mkdocs does beside its configuration: pages from outside of docs/."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# Files that GitHub expects at the top of the repository.
PAGES = {'CONTRIBUTING.md': 'contributing.md', 'CHANGELOG.md': 'changelog.md'}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, with links as they are from docs/."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text('utf-8').replace('](docs/', '](')
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Lead links to the files to their pages, under the pages' titles.

    The list of a page's headings at its top goes: the site has one beside the page.
    """
    contents = re.compile(r'^(- \[[^]]+\]\(#[^)]+\)\n)+\n', re.MULTILINE)
    return _name_pages(_link_pages(contents.sub('', markdown, count=1)))


def on_page_content(html: str, **_: object) -> str:
    """Show the reStructuredText of docstrings: `:class:` and links."""
    html = re.sub(r':(?:class|func|meth|attr):(?=<code>)', '', html)
    link = r'<code>([^<]+?)\s+&lt;(https?://[^<]+?)&gt;</code>_'
    return re.sub(link, r'<a href="\2">\1</a>', html)


def _name_pages(text: str) -> str:
    """Show [data.md](data.md) under the title of that page."""

    def named(match: re.Match) -> str:
        source = ROOT / 'docs' / match[1]
        if not source.is_file():
            source = ROOT / match[1].upper().replace('.MD', '.md')
        title = source.read_text('utf-8').splitlines()[0].removeprefix('# ')
        return f'[{title}]({match[1]}{match[2] or ""})'

    return re.sub(r'\[[\w/.]+\.md\]\((\w+\.md)(#[^)]*)?\)', named, text)


def _link_pages(text: str) -> str:
    names = '|'.join(map(re.escape, PAGES))
    link = rf'\]\((?:\.\./)?({names})(#[^)]*)?\)'
    return re.sub(link, lambda m: f']({PAGES[m[1]]}{m[2] or ""})', text)
