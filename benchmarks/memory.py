"""How far a call lets the memory of this process grow, as Linux counts it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def peak_growth(call: Callable[[], object]) -> int:
    """Bytes between the memory before a call and its peak during the call.

    Meant for a fresh process that has made its libraries' buffers already, with
    ``MALLOC_MMAP_THRESHOLD_`` set low, so that freed tensors go back to the system.
    """
    Path('/proc/self/clear_refs').write_text('5')  # the peak starts at the present
    before = _status('VmRSS')
    call()
    return _status('VmHWM') - before


def _status(field: str) -> int:
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f'/proc/self/status has no field {field}.')
