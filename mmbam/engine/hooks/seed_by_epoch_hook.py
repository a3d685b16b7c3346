"""Random draws that do not depend on where a run was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mmengine.dist import broadcast, get_rank
from mmengine.hooks import Hook
from mmengine.runner import IterBasedTrainLoop, Runner

from mmbam.datasets.leaves import hand_to_transforms, leaf_datasets, repeats_samples
from mmbam.datasets.transforms.seed_by_sample import seed_by_key
from mmbam.registry import HOOKS
from mmbam.utils.errors import InputError


@HOOKS.register_module()
class SeedByEpochHook(Hook):
    """Make every random draw of training a function of the seed and the epoch.

    The views of a sample depend on (seed, epoch, sample) through
    :class:`mmbam.SeedBySample`, which this hook tells the epoch through shared memory;
    what a rank's network draws (dropout, stochastic depth) depends on (seed, epoch,
    iteration, rank). A run that is resumed after any epoch, with any number of
    data-loader workers, then equals one that never stopped. The seed is the run's
    (``randomness=dict(seed=...)``; without one, the checkpoint remembers the seed that
    was drawn).
    """

    def before_train(self, runner: Runner) -> None:
        """Share the clock with the pipelines before any worker starts."""
        if isinstance(runner.train_loop, IterBasedTrainLoop):
            raise InputError(
                'SeedByEpochHook counts epochs: train with EpochBasedTrainLoop '
                '(`by_epoch=True`), not with IterBasedTrainLoop.'
            )
        loader = runner.train_dataloader
        # With `diff_rank_seed` every rank has its own; samples know no rank.
        seed = torch.tensor([runner.seed])
        broadcast(seed, src=0)
        self._clock = torch.tensor([int(seed), runner.epoch]).share_memory_()
        found = 0
        leaves = leaf_datasets(loader.dataset)
        for set_clock, start, _ in hand_to_transforms(leaves, 'set_clock'):
            set_clock(self._clock, start)
            found += 1
        if not found:
            raise InputError(
                'SeedByEpochHook found no mmbam.SeedBySample in the training '
                "pipelines: put dict(type='mmbam.SeedBySample') first in each."
            )
        wrapper = repeats_samples(loader.dataset)
        if wrapper is not None:
            raise InputError(
                f'{wrapper} shows a sample several times an epoch, and '
                'mmbam.SeedBySample would give it the same views each time: train for '
                'more epochs instead, or drop SeedBySample and SeedByEpochHook.'
            )
        # The samplers were built before a resumed run learned its seed.
        sampler: Any
        for sampler in (loader.sampler, getattr(loader.batch_sampler, 'sampler', None)):
            if hasattr(sampler, 'seed'):
                sampler.seed = int(seed)

    def before_train_epoch(self, runner: Runner) -> None:
        """Publish the epoch, and start it from a known random state."""
        self._clock[1] = runner.epoch
        self._seed(runner.epoch, 0)

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Sequence | dict | None = None
    ) -> None:
        """Seed what the network draws.

        Without workers the pipeline has just drawn in this very process.
        """
        self._seed(runner.epoch, 1 + batch_idx)

    def _seed(self, epoch: int, step: int) -> None:
        seed_by_key(int(self._clock[0]), epoch, step, get_rank())
        if torch.cuda.is_available():
            # Follows the key just set.
            torch.cuda.manual_seed(int(torch.randint(2**31, ())))
