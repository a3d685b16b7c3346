"""One self-contained HTML page: text, tables and pictures that open offline."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Union

import jinja2

from mmbam.utils.errors import InputError
from mmbam.utils.files import write_text

# Evaluated at import, where Python 3.9 does not know `str | float`.
Cell = Union[str, float, tuple[float, float], None]

_TEMPLATE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; --text: #1d2329; --soft: #5b6670; --back: #fff;
  --line: #d9dee3; --best: #e2f3e6; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ea; --soft: #9aa5af;
  --back: #16191c; --line: #353b41; --best: #1f4029; } }
body { margin: 2.5rem auto; max-width: 70rem; padding: 0 1.2rem; color: var(--text);
  background: var(--back); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.8rem; line-height: 1.25; }
h2 { margin-top: 2.6rem; font-size: 1.25rem; border-bottom: 1px solid var(--line); }
p { max-width: 46rem; }
.table { overflow-x: auto; margin: 1.2rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption, figcaption { color: var(--soft); font-size: 0.92rem; text-align: left; }
caption { padding-bottom: 0.4rem; }
th, td { padding: 0.3rem 0.9rem; border-bottom: 1px solid var(--line);
  text-align: left; vertical-align: top; }
th { vertical-align: bottom; }
.number { text-align: right; }
td.number { white-space: nowrap; }
.best { font-weight: 700; background: var(--best); }
figure { margin: 1.4rem 0; }
img { max-width: 100%; height: auto; border-radius: 6px; background: #fff; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% for section in sections %}
<section>
<h2>{{ section.heading }}</h2>
{% for part in section.parts %}
{% if part is string %}
<p>{{ part }}</p>
{% elif part.header is defined %}
{% set numeric, best = part.numeric_columns(), part.best_cells() %}
<div class="table"><table>
{% if part.caption %}
<caption>{{ part.caption }}</caption>
{% endif %}
<thead><tr>
{%- for name in part.header -%}
<th{% if numeric[loop.index0] %} class="number"{% endif %}>{{ name }}</th>
{%- endfor -%}
</tr></thead>
<tbody>
{% for row in part.rows %}
<tr>
{%- set i = loop.index0 -%}
{%- for cell in row -%}
{%- set number = 'number' if numeric[loop.index0] -%}
{%- set kind = [number, 'best' if (i, loop.index0) in best] | select | join(' ') -%}
<td{% if kind %} class="{{ kind }}"{% endif %}>{{ part.show(cell) }}</td>
{%- endfor -%}
</tr>
{% endfor %}
</tbody>
</table></div>
{% else %}
<figure><img alt="{{ part.caption }}" src="{{ part.data() }}">
<figcaption>{{ part.caption }}</figcaption></figure>
{% endif %}
{% endfor %}
</section>
{% endfor %}
</body>
</html>
"""


@dataclass
class Table:
    """A table in which a value that is ahead of all others beyond doubt is marked.

    Args:
        header (Sequence[str]): Names of the columns, with their units.
        rows (Sequence[Sequence]): Rows of cells. A cell is a text, a number, a pair
            (value, error), or None for a missing value.
        caption (str): Text above the table. Defaults to none.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ''

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(
                    f'A row of the table has {len(row)} cells for its '
                    f'{len(self.header)} columns: {list(row)}.'
                )

    def best_cells(self) -> set[tuple[int, int]]:
        """Return row and column of the cells to mark.

        The largest value of a column is marked if it exceeds each of the others by more
        than twice the error of their difference. Numbers without an error say nothing.
        """
        marked: set[tuple[int, int]] = set()
        for column in range(len(self.header)):
            cells = [(row[column], number) for number, row in enumerate(self.rows)]
            known = [(cell, n) for cell, n in cells if _value(cell) is not None]
            pairs = [(cell, n) for cell, n in known if isinstance(cell, tuple)]
            if len(pairs) < max(2, len(known)):
                continue
            (best, error), row = max(pairs)
            if all(
                best - value > 2 * math.hypot(error, other)
                for (value, other), number in pairs
                if number != row
            ):
                marked.add((row, column))
        return marked

    def numeric_columns(self) -> list[bool]:
        """Return for each column whether it holds more than texts."""
        return [
            any(not isinstance(row[column], str) for row in self.rows)
            for column in range(len(self.header))
        ]

    @staticmethod
    def show(cell: Cell) -> str:
        """Return a cell as text."""
        if isinstance(cell, str):
            return cell
        if _value(cell) is None:
            return '–'
        numbers = cell if isinstance(cell, tuple) else (cell,)
        return ' ± '.join(f'{number:.1f}' for number in numbers)


@dataclass
class Picture:
    """A PNG or JPEG file that becomes part of the page, with its caption below.

    Screen readers read the caption as well.
    """

    path: str | Path
    caption: str

    def data(self) -> str:
        """Return the picture as a data URL."""
        path = Path(self.path)
        if not path.is_file():
            raise InputError(f'There is no picture {str(path)!r} for the page.')
        content = path.read_bytes()
        if content.startswith(b'\x89PNG\r\n'):
            kind = 'png'
        elif content.startswith(b'\xff\xd8\xff'):
            kind = 'jpeg'
        else:
            raise InputError(f'A page shows PNG and JPEG files, not {str(path)!r}.')
        return f'data:image/{kind};base64,{base64.b64encode(content).decode("ascii")}'


@dataclass
class Section:
    """A part of the page: a heading, and in order texts, tables and pictures."""

    heading: str
    parts: Sequence[str | Table | Picture]


def write_page(path: str | Path, title: str, sections: Sequence[Section]) -> None:
    """Write one HTML file that needs no other file and no network.

    Its folder is made if need be. All text is escaped. The page follows the reader's
    choice of a light or dark style.
    """
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, keep_trailing_newline=True
    )
    page = environment.from_string(_TEMPLATE).render(title=title, sections=sections)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page)


def _value(cell: Cell) -> float | None:
    if isinstance(cell, tuple):
        cell = cell[0]
    if not isinstance(cell, Real) or math.isnan(cell):
        return None
    return float(cell)
