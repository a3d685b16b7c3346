"""Peak memory of a call, as Linux counts it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def peak_growth(call: Callable[[], object]) -> int:
    """Bytes by which a call raises the peak of this process's resident memory.

    Use it in a fresh process that has called the function once, so that libraries have
    allocated their buffers, with ``MALLOC_MMAP_THRESHOLD_`` set low, so that freed
    tensors go back to the system.
    """
    Path('/proc/self/clear_refs').write_text('5')  # resets the peak
    before = _status('VmRSS')
    call()
    return _status('VmHWM') - before


def _status(field: str) -> int:
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f'/proc/self/status has no field {field}.')
