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
        files.append(File.generated(config, page, content=_link_pages(text)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Lead links to the files to their pages."""
    return _link_pages(markdown)


def on_page_content(html: str, **_: object) -> str:
    """Show the reStructuredText of docstrings: `:class:` and links."""
    html = re.sub(r':(?:class|func|meth|attr):(?=<code>)', '', html)
    link = r'<code>([^<]+?)\s+&lt;(https?://[^<]+?)&gt;</code>_'
    return re.sub(link, r'<a href="\2">\1</a>', html)


def _link_pages(text: str) -> str:
    names = '|'.join(map(re.escape, PAGES))
    link = rf'\]\((?:\.\./)?({names})(#[^)]*)?\)'
    return re.sub(link, lambda m: f']({PAGES[m[1]]}{m[2] or ""})', text)
