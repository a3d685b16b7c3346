"""One self-contained HTML page: text, tables and pictures that open offline."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from numbers import Real
from pathlib import Path
from typing import Union

# Evaluated at import, where Python 3.9 does not know `str | float`.
Cell = Union[str, float, tuple[float, float], None]

_STYLE = """
:root { color-scheme: light dark; --text: #1d2329; --soft: #5b6670; --back: #fff;
  --line: #d9dee3; --best: #e2f3e6; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ea; --soft: #9aa5af;
  --back: #16191c; --line: #353b41; --best: #1f4029; } }
body { margin: 2.5rem auto; max-width: 62rem; padding: 0 1.2rem; color: var(--text);
  background: var(--back); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.8rem; line-height: 1.25; }
h2 { margin-top: 2.6rem; font-size: 1.25rem; border-bottom: 1px solid var(--line); }
p { max-width: 46rem; }
.table { overflow-x: auto; margin: 1.2rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption, figcaption { color: var(--soft); font-size: 0.92rem; text-align: left; }
caption { padding-bottom: 0.4rem; }
th, td { padding: 0.3rem 0.9rem; border-bottom: 1px solid var(--line);
  text-align: left; white-space: nowrap; }
.number { text-align: right; }
.best { font-weight: 700; background: var(--best); }
figure { margin: 1.4rem 0; }
img { max-width: 100%; height: auto; border-radius: 6px; background: #fff; }
"""


@dataclass
class Table:
    """A table whose best values are marked.

    Args:
        header (Sequence[str]): Names of the columns, with their units.
        rows (Sequence[Sequence]): Cells: a text, a number, a pair (mean, spread) or
            None for a value that there is not.
        caption (str): Text above it. Defaults to none.
        best (str | None): ``'max'`` or ``'min'`` marks the best numbers of every
            column, all of them if several are shown alike; texts do not take part.
            None marks nothing. Defaults to ``'max'``.
        digits (int): Of the numbers, behind the point. Defaults to 1.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ''
    best: str | None = 'max'
    digits: int = 1

    def __post_init__(self) -> None:
        if self.best not in ('max', 'min', None):
            raise ValueError(f"best must be 'max', 'min' or None, got {self.best!r}.")
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(
                    f'A row of the table has {len(row)} cells for its '
                    f'{len(self.header)} columns: {list(row)}.'
                )

    def best_cells(self) -> set[tuple[int, int]]:
        """Row and column of the cells to mark."""
        marked: set[tuple[int, int]] = set()
        if self.best is None or len(self.rows) < 2:
            return marked
        choose = max if self.best == 'max' else min
        for column in range(len(self.header)):
            # As shown: what differs in hidden digits is not better.
            values = {
                row: round(value, self.digits)
                for row, cells in enumerate(self.rows)
                if (value := _value(cells[column])) is not None
            }
            if len(values) > 1:
                top = choose(values.values())
                marked |= {(row, column) for row, v in values.items() if v == top}
        return marked

    def html(self) -> str:
        """The table as HTML."""
        best = self.best_cells()
        numeric = [
            any(not isinstance(row[column], str) for row in self.rows)
            for column in range(len(self.header))
        ]
        head = ''.join(
            f'<th{_class(number=number)}>{escape(name)}</th>'
            for name, number in zip(self.header, numeric)
        )
        lines = []
        for i, row in enumerate(self.rows):
            cells = ''.join(
                f'<td{_class(number=number, best=(i, j) in best)}>'
                f'{escape(_show(cell, self.digits))}</td>'
                for j, (cell, number) in enumerate(zip(row, numeric))
            )
            lines.append(f'<tr>{cells}</tr>')
        caption = f'<caption>{escape(self.caption)}</caption>' if self.caption else ''
        body = '\n'.join(lines)
        return (
            f'<div class="table"><table>{caption}\n<thead><tr>{head}</tr></thead>\n'
            f'<tbody>\n{body}\n</tbody></table></div>'
        )


@dataclass
class Picture:
    """A picture that becomes part of the page.

    Args:
        path (str | Path): A PNG or JPEG file.
        caption (str): What it shows, below it; also read out in its place.
    """

    path: str | Path
    caption: str

    def html(self) -> str:
        """The picture as HTML, with its bytes inside."""
        path = Path(self.path)
        if not path.is_file():
            raise FileNotFoundError(f'There is no picture {str(path)!r} for the page.')
        content = path.read_bytes()
        if content.startswith(b'\x89PNG\r\n'):
            kind = 'png'
        elif content.startswith(b'\xff\xd8\xff'):
            kind = 'jpeg'
        else:
            raise ValueError(f'A page shows PNG and JPEG files, not {str(path)!r}.')
        data = base64.b64encode(content).decode('ascii')
        caption = escape(self.caption)
        return (
            f'<figure><img alt="{caption}" src="data:image/{kind};base64,{data}">\n'
            f'<figcaption>{caption}</figcaption></figure>'
        )


@dataclass
class Section:
    """A part of the page.

    Args:
        heading (str): Its heading.
        parts (Sequence[str | Table | Picture]): What it shows, in this order. A text
            is a paragraph.
    """

    heading: str
    parts: Sequence[str | Table | Picture]


def write_page(path: str | Path, title: str, sections: Sequence[Section]) -> None:
    """Write one HTML file that needs no other file and no network.

    All text is escaped. The page follows the reader's choice of a light or dark style.

    Args:
        path (str | Path): File to write; its folder is made if it is not there.
        title (str): Of the page.
        sections (Sequence[Section]): What it shows.
    """
    lines = [
        '<!DOCTYPE html>',
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{escape(title)}</title>',
        f'<style>{_STYLE}</style></head>',
        f'<body>\n<h1>{escape(title)}</h1>',
    ]
    for section in sections:
        lines.append(f'<section>\n<h2>{escape(section.heading)}</h2>')
        for part in section.parts:
            lines.append(
                f'<p>{escape(part)}</p>' if isinstance(part, str) else part.html()
            )
        lines.append('</section>')
    lines.append('</body>\n</html>\n')
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(lines), encoding='utf-8')


def _value(cell: Cell) -> float | None:
    if isinstance(cell, tuple):
        cell = cell[0]
    if not isinstance(cell, Real) or math.isnan(cell):
        return None
    return float(cell)


def _show(cell: Cell, digits: int) -> str:
    if isinstance(cell, str):
        return cell
    if _value(cell) is None:
        return '–'
    if isinstance(cell, tuple):
        return f'{cell[0]:.{digits}f} ± {cell[1]:.{digits}f}'
    return f'{cell:.{digits}f}'


def _class(**wanted: bool) -> str:
    names = ' '.join(name for name, yes in wanted.items() if yes)
    return f' class="{names}"' if names else ''
