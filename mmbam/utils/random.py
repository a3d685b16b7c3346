"""Keep random states."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def preserved_randomness() -> Iterator[None]:
    """Restore the states of all random generators on leaving.

    Even a data loader that shuffles nothing draws a seed for its workers.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
