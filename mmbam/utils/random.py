"""Keep random states, and set them."""

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


def seed_by_key(*key: int) -> None:
    """Seed python's, numpy's and torch's CPU draws from integers of at least 0.

    Different keys give unrelated draws.
    """
    # The length goes in because SeedSequence pads short keys with zeros.
    words = np.random.SeedSequence((len(key), *key)).generate_state(6)
    np.random.seed(words[:4])
    random.seed(int(words[4]))
    # `torch.manual_seed` would also seed every GPU, which is slow and not needed here.
    torch.default_generator.manual_seed(int(words[5]))
