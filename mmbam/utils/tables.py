"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

# A file or a pipe has no width of its own, and rich would fold tables to 80 columns.
_WIDTH_OF_FILES = 160


def print_table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Print a table: the first column to the left, the others to the right.

    Floats are shown with one decimal, everything else as ``str`` shows it.
    """
    table = Table(title=title)
    for number, name in enumerate(header):
        table.add_column(name, justify='right' if number else 'left')
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    _print(table)


def print_texts(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """Print a table of texts, all to the left; long ones are folded."""
    table = Table(title=title, title_justify='left', box=box.SIMPLE_HEAD)
    for number, name in enumerate(header):
        table.add_column(name, overflow='fold', no_wrap=number == 0)
    for row in rows:
        table.add_row(*row)
    _print(table)


def _print(table: Table) -> None:
    # Without markup, which would drop '[cls]' from a cell.
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH_OF_FILES
    console.print(table)


def _text(cell: object) -> str:
    return f'{cell:.1f}' if isinstance(cell, (float, np.floating)) else str(cell)
