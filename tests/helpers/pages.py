"""The pages of the documentation, and what stands in their blocks and `spans`."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.run import ROOT

PAGES = [*sorted(ROOT.glob('*.md')), *sorted((ROOT / 'docs').glob('*.md'))]
FENCED = re.compile(r'^```(\w*)\n(.*?)^```', re.DOTALL | re.MULTILINE)
SPAN = re.compile(r'`([^`]+)`')
# What may stand before a command, and what does not belong to its arguments.
BEFORE = re.compile(r'[A-Z_]+=|nohup$|taskset$|-c$|\d+$')
BETWEEN = {'&&', '||', ';', '|', '&'}
VARIABLE = re.compile(r'^([A-Z]+)="(.*)"', re.MULTILINE)


@dataclass
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f'{self.page.name}:{self.line}'

    @property
    def file(self) -> str | None:
        """Name of the file that a block of Python is, by its first line."""
        found = re.match(r'# (\w+\.py)\n', self.code)
        return found[1] if found else None


def blocks(*languages: str) -> list[Block]:
    """All blocks of all pages in these languages."""
    found = []
    for page in PAGES:
        text = page.read_text('utf-8')
        for match in FENCED.finditer(text):
            line = text.count('\n', 0, match.start()) + 1
            found.append(Block(page, line, match[1], match[2]))
    return [block for block in found if block.language in languages]


def prose(page: Path) -> str:
    """The text of a page without its blocks."""
    return FENCED.sub('', page.read_text('utf-8'))


def spans(page: Path) -> list[str]:
    """What stands in `...` on a page, each in one line."""
    return [' '.join(s.split()).replace('\\|', '|') for s in SPAN.findall(prose(page))]


def commands(code: str) -> list[list[str]]:
    """The commands of a shell block as words, without what only surrounds them."""
    found = []
    for name, value in reversed(VARIABLE.findall(code)):  # one may hold an earlier one
        code = code.replace(f'${name}', value)
    for line in code.replace('\\\n', ' ').splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars='&|;<>')
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ';']:
            if word not in BETWEEN:
                words.append(word)
                continue
            if '>' in words:
                words = words[: words.index('>')]
            while words and BEFORE.match(words[0]):
                words.pop(0)
            if words:
                found.append(words)
            words = []
    return found
