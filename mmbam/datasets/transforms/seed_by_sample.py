"""Random draws that depend on the sample and the epoch alone."""

from __future__ import annotations

import random

import numpy as np
import torch
from mmcv.transforms import BaseTransform
from torch import Tensor

from mmbam.registry import TRANSFORMS


def seed_by_key(*key: int) -> None:
    """Seed python's, numpy's and torch's CPU random numbers from a tuple of integers.

    Args:
        *key (int): Non-negative integers. Keys that differ anywhere give draws that
            have nothing in common.
    """
    # With the length, because the sequence pads short keys with zeros.
    words = np.random.SeedSequence((len(key), *key)).generate_state(6)
    np.random.seed(words[:4])
    random.seed(int(words[4]))
    # `torch.manual_seed` would also queue a seed for every GPU, slowly, and a worker
    # has no business there.
    torch.default_generator.manual_seed(int(words[5]))


@TRANSFORMS.register_module()
class SeedBySample(BaseTransform):
    """Seed the random numbers of the transforms that follow, once per sample.

    Put it first in the pipeline. With :class:`mmbam.SeedByEpochHook`, which provides
    the run's seed and the epoch, a sample's views depend on (seed, epoch, sample) and
    on nothing else: not on the worker that loads it, the number of workers and ranks,
    or on whether the run was resumed. Without the hook (in a tool that only looks at a
    pipeline, say) it does nothing.

    **Required keys:** ``sample_idx``, which every mmengine data set provides.
    """

    def __init__(self) -> None:
        self._clock: Tensor | None = None
        self._offset = 0

    def set_clock(self, clock: Tensor, offset: int) -> None:
        """Connect to the training process.

        Args:
            clock (Tensor): (seed, epoch) in shared memory.
            offset (int): What to add to ``sample_idx`` so that no two samples of
                concatenated data sets get the same number.
        """
        self._clock = clock
        self._offset = offset

    def transform(self, results: dict) -> dict:
        """Seed, and hand the sample on as it is."""
        if self._clock is not None:
            seed_by_key(*self._clock.tolist(), self._offset + results['sample_idx'])
        return results
