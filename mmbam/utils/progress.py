"""How far a loop is: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

from mmengine.dist import is_main_process
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

T = TypeVar('T')


class Progress:
    """Shows what is done, what has passed and what is left of a loop's time.

    Args:
        total (int): Number of steps.
        text (str): Name of the loop.
        done (int): Number of steps that an earlier run did. Defaults to 0.
        lines (int): Number of plain lines over the whole loop, where the output is no
            terminal. Others come after one minute, two, four and so on. Defaults to 4.
        show (bool): Whether to show anything; only one rank should. Defaults to True.
        file (TextIO, optional): Stream to write to. Defaults to None, standard output.
    """

    def __init__(
        self,
        total: int,
        text: str,
        *,
        done: int = 0,
        lines: int = 4,
        show: bool = True,
        file: TextIO | None = None,
    ) -> None:
        self.total, self.text, self.done = total, text, done
        self._lines, self._show = lines, show
        self._file = file or sys.stdout
        self._first, self._began = done, time.monotonic()
        self._next = 60.0  # seconds after which a line is due in any case
        self._bar: Bar | None = None
        console = Console(file=self._file)
        if show and console.is_terminal:
            self._bar = Bar(
                TextColumn('{task.description}'),
                BarColumn(),
                TaskProgressColumn('{task.percentage:3.0f} %'),
                TimeRemainingColumn(),
                console=console,
                redirect_stdout=False,
            )
            self._task = self._bar.add_task(text, total=total, completed=done)
            self._bar.start()

    def advance(self, steps: int = 1, text: str | None = None) -> None:
        """Count steps, and perhaps give the loop a new name."""
        before, self.text = self.done, text or self.text
        self.done += steps
        if not self._show:
            return
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, description=self.text)
            return
        spent, total = time.monotonic() - self._began, max(self.total, 1)
        due = self.done * self._lines // total > before * self._lines // total
        if due or spent >= self._next:
            while self._next <= spent:
                self._next *= 2
            left = spent / (self.done - self._first) * (total - self.done)
            print(
                f'{self.text}, {100 * self.done // total} %, {_duration(spent)}, '
                f'{_duration(left)} left',
                file=self._file,
                flush=True,
            )

    def close(self) -> None:
        """Release the terminal, also after a loop that was interrupted."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def with_progress(items: Iterable[T], total: int, text: str) -> Iterator[T]:
    """Go through items and show how many are done; the first rank shows it."""
    with Progress(total, text, show=is_main_process()) as progress:
        for item in items:
            yield item
            progress.advance()


def _duration(seconds: float) -> str:
    """A time in the unit that fits."""
    if seconds < 180:
        return f'{seconds:.0f} s'
    if seconds < 3 * 3600:
        return f'{seconds / 60:.0f} min'
    return f'{seconds / 3600:.1f} h'
