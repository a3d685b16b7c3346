"""Random draws that do not depend on where a run was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mmengine.dist import broadcast, get_rank
from mmengine.hooks import Hook
from mmengine.runner import IterBasedTrainLoop, Runner
from torch.utils.data import IterableDataset

from mmbam.datasets.seeded import SeededSamples
from mmbam.engine.loops import IterLoop
from mmbam.registry import HOOKS
from mmbam.utils.errors import InputError
from mmbam.utils.random import seed_by_key


@HOOKS.register_module()
class SeedByEpochHook(Hook):
    """Make every random draw of training a function of the seed and the place in it.

    The views of a sample depend on (seed, epoch, sample), or in a loop without epochs
    on (seed, place in the order of samples); what a rank's network draws (dropout,
    stochastic depth) depends on (seed, epoch, iteration, rank). A run that is resumed
    after any iteration, with any number of data-loader workers, then equals one that
    never stopped. The seed is the run's (``randomness=dict(seed=...)``; without one,
    the checkpoint remembers the seed that was drawn).
    """

    def before_train(self, runner: Runner) -> None:
        """Put the seeds before the samples, before any worker starts."""
        loop, loader = runner.train_loop, runner.train_dataloader
        if isinstance(loop, IterBasedTrainLoop) and not isinstance(loop, IterLoop):
            raise InputError(
                'SeedByEpochHook needs a loop that starts its workers late: train '
                "through mmbam train, or with train_cfg.type='mmbam.IterLoop'."
            )
        # With `diff_rank_seed` every rank has its own; samples know no rank.
        seed = torch.tensor([runner.seed])
        broadcast(seed, src=0)
        self._clock = torch.tensor([int(seed), runner.epoch]).share_memory_()
        dataset: Any = loader.dataset
        if isinstance(dataset, SeededSamples):  # of an earlier call
            dataset = dataset.dataset
        if not isinstance(dataset, IterableDataset):
            # A loader refuses a new data set because its workers may have begun with
            # the old one. Here they have not.
            object.__setattr__(loader, 'dataset', SeededSamples(dataset, self._clock))
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
