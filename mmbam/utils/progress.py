"""A bar with the time left, for work that takes a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from mmengine.dist import is_main_process
from mmengine.utils import ProgressBar

T = TypeVar('T')
# Seconds between two looks of the bar; in a file each takes room.
_PAUSE = {True: 0.2, False: 10}


def with_progress(items: Iterable[T], total: int) -> Iterator[T]:
    """Go through items and show how many are done; the first rank shows it.

    Args:
        items (Iterable): What to go through.
        total (int): Number of items.
    """
    if not total or not is_main_process():
        yield from items
        return
    bar = ProgressBar(total, file=sys.stdout)
    pause, shown, last = _PAUSE[sys.stdout.isatty()], 0, time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        if number == total or time.monotonic() - last > pause:
            bar.update(number - shown)
            shown, last = number, time.monotonic()
    print()
