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
        *key (int): Non-negative integers. Different keys give unrelated draws.
    """
    # The length goes in because SeedSequence pads short keys with zeros.
    words = np.random.SeedSequence((len(key), *key)).generate_state(6)
    np.random.seed(words[:4])
    random.seed(int(words[4]))
    # `torch.manual_seed` would also seed every GPU, which is slow and not needed here.
    torch.default_generator.manual_seed(int(words[5]))


@TRANSFORMS.register_module()
class SeedBySample(BaseTransform):
    """Seed the random numbers of the following transforms, once per sample.

    Belongs first in the pipeline. :class:`mmbam.SeedByEpochHook` provides the seed and
    the epoch. A sample's views then depend on (seed, epoch, sample) alone: not on the
    number of workers or ranks, nor on whether the run was resumed. Without the hook, as
    in a tool that only shows a pipeline, this transform does nothing.

    **Required Keys:** ``sample_idx``, which every mmengine data set provides.
    """

    def __init__(self) -> None:
        self._clock: Tensor | None = None
        self._offset = 0

    def set_clock(self, clock: Tensor, offset: int) -> None:
        """Connect to the training process.

        Args:
            clock (Tensor): Seed and epoch in shared memory.
            offset (int): Number added to ``sample_idx``, which keeps the samples of
                concatenated data sets apart.
        """
        self._clock = clock
        self._offset = offset

    def transform(self, results: dict) -> dict:
        """Seed, and return the sample unchanged."""
        if self._clock is not None:
            seed_by_key(*self._clock.tolist(), self._offset + results['sample_idx'])
        return results
