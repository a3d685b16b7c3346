"""Training loops that go on at any iteration, without reading what was seen before."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

from mmengine.dataset import InfiniteSampler
from mmengine.dist import get_rank, get_world_size
from mmengine.runner import EpochBasedTrainLoop, IterBasedTrainLoop, Runner
from torch.utils.data import DataLoader, IterableDataset

from mmbam.datasets.seeded import SeededSamples
from mmbam.registry import LOOPS
from mmbam.utils.errors import InputError

from .signals import SIGNALS

# In the message hub, which every checkpoint holds and only a resumed run restores.
DONE, TOTAL_BATCH = 'mmbam_batches_done', 'mmbam_total_batch'


def batches_done(runner: Runner) -> int:
    """Number of batches of the current epoch that are behind; 0 between epochs."""
    if runner.iter == 0:
        return 0  # a hub may remember an earlier run of this process
    return runner.message_hub.runtime_info.get(DONE, 0)


@LOOPS.register_module()
class EpochLoop(EpochBasedTrainLoop):
    """mmengine's loop over epochs, which can also go on in the middle of one."""

    def run(self) -> Any:
        """Train, from the batch after the last one that the checkpoint has seen."""
        batches = self.dataloader.batch_sampler
        size = self.dataloader.batch_size or getattr(batches, 'batch_size', None) or 1
        total = size * get_world_size()
        hub = self.runner.message_hub
        before = hub.runtime_info.get(TOTAL_BATCH, total)
        if batches_done(self.runner) and before != total:
            raise InputError(
                f'The checkpoint is in the middle of an epoch with batches of {before} '
                f'samples on all processes together, but this run has {total}: resume '
                'with a train_dataloader.batch_size and a number of processes whose '
                f'product is {before}, or from a checkpoint at the end of an epoch.'
            )
        hub.update_info(TOTAL_BATCH, total)
        return super().run()

    def run_epoch(self) -> None:
        """Iterate over what is left of an epoch."""
        hub = self.runner.message_hub
        done = batches_done(self.runner)
        self.runner.call_hook('before_train_epoch')
        self.runner.model.train()
        for index, batch in enumerate(start_loader(self.dataloader, done), done):
            hub.update_info(DONE, index + 1)
            self.run_iter(index, batch)
        hub.update_info(DONE, 0)
        self.runner.call_hook('after_train_epoch')
        self._epoch += 1


@LOOPS.register_module()
class IterLoop(IterBasedTrainLoop):
    """mmengine's loop over iterations, without reading the samples seen before."""

    def __init__(self, runner: Runner, dataloader: Any, *args, **kwargs) -> None:
        if isinstance(dataloader, dict):
            dataloader = runner.build_dataloader(
                dataloader,
                seed=runner.seed,
                diff_rank_seed=runner._randomness_cfg.get('diff_rank_seed', False),
            )
        # mmengine starts the workers here, before a hook can prepare the data set.
        super().__init__(runner, _NotStarted(dataloader), *args, **kwargs)
        self.dataloader = dataloader

    def run(self) -> Any:
        """Train, from the batch after the last one that the checkpoint has seen."""
        self.runner.call_hook('before_train')
        self.runner.call_hook('before_train_epoch')
        self.dataloader_iterator = _endless(self.dataloader, self._iter)
        while self._iter < self._max_iters and not self.stop_training:
            self.runner.model.train()
            self.run_iter(next(self.dataloader_iterator))
            self._decide_current_val_interval()
            if (
                self.runner.val_loop is not None
                and self._iter >= self.val_begin
                and (
                    self._iter % self.val_interval == 0 or self._iter == self._max_iters
                )
            ):
                self.runner.val_loop.run()
        self.runner.call_hook('after_train_epoch')
        self.runner.call_hook('after_train')
        return self.runner.model


class Batches:
    """A batch sampler that can leave out its first batches, once."""

    def __init__(self, batch_sampler: Any) -> None:
        self.batch_sampler = batch_sampler
        self.start = 0
        self.turn: int | None = None

    def __iter__(self) -> Iterator[list]:
        # A loader with workers makes two iterators and uses one, so what counts is the
        # first batch that is asked for.
        start, self.start = self.start, 0
        batches = islice(self.batch_sampler, start, None)
        if self.turn is None:
            yield from batches
        else:
            yield from self._placed(batches, start)

    def _placed(self, batches: Iterator[list], start: int) -> Iterator[list]:
        """Put the place in the run, counted over all ranks, before each index."""
        rank, world_size = get_rank(), get_world_size()
        turn, number = self.turn, start * self.batch_sampler.batch_size
        for batch in batches:
            yield [
                (turn, rank + world_size * (number + i), index)
                for i, index in enumerate(batch)
            ]
            number += len(batch)

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def __getattr__(self, name: str) -> Any:
        if name == 'batch_sampler':  # while it is being unpickled
            raise AttributeError(name)
        return getattr(self.batch_sampler, name)


def start_loader(loader: DataLoader, start: int, turn: int | None = None) -> Iterator:
    """Iterate over a loader from a batch on, without reading those before.

    ``turn`` is the number of times that the loader was used up before, for loops
    without epochs.
    """
    batches = loader.batch_sampler
    if batches is None or isinstance(loader.dataset, IterableDataset):
        # Samples without an index cannot be left out unread.
        with _signals_held(loader):
            return islice(iter(loader), start, None)
    if not isinstance(batches, Batches):
        batches = Batches(batches)
        # A loader refuses a new sampler because its workers may have begun with the
        # old one. Here they have not.
        object.__setattr__(loader, 'batch_sampler', batches)
    batches.start = start
    batches.turn = turn if isinstance(loader.dataset, SeededSamples) else None
    with _signals_held(loader):
        return iter(loader)


def _endless(loader: DataLoader, done: int) -> Iterator:
    """Batches of a loader again and again, from a batch on."""
    sampler = loader.sampler
    if not hasattr(sampler, 'set_epoch'):
        sampler = getattr(loader.batch_sampler, 'sampler', sampler)
    turn = 0
    # mmengine's endless sampler has a length but no end.
    if loader.batch_sampler is not None and not isinstance(sampler, InfiniteSampler):
        while done and (passed := _count(loader.batch_sampler, done)) < done:
            done -= passed
            turn += 1
            if hasattr(sampler, 'set_epoch'):
                sampler.set_epoch(turn)
    while True:
        yield from start_loader(loader, done, turn)
        done = 0
        turn += 1
        if hasattr(sampler, 'set_epoch'):
            sampler.set_epoch(turn)


def _count(batches: Any, limit: int) -> int:
    return sum(1 for _ in islice(batches, limit))


class _NotStarted:
    """Stands in for a loader that must not start yet."""

    def __init__(self, loader: DataLoader) -> None:
        self.dataset = loader.dataset

    def __iter__(self) -> Iterator:
        return iter(())


@contextmanager
def _signals_held(loader: DataLoader) -> Iterator[None]:
    """Let workers that start here live through signals that go to a whole group.

    Otherwise the batch that they are reading would be lost. The training process gets
    its signals when it leaves this block; workers inherit that they are held.
    """
    plain = loader.worker_init_fn
    if getattr(plain, 'func', None) is not _init_worker:
        loader.worker_init_fn = partial(_init_worker, plain)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _init_worker(plain: Callable[[int], None] | None, worker: int) -> None:
    threading.Thread(target=_obey_parent, daemon=True).start()
    if plain is not None:
        plain(worker)


def _obey_parent() -> None:
    """End this worker when the training process, and nobody else, says so."""
    while signal.sigwaitinfo([signal.SIGTERM]).si_pid != os.getppid():
        pass
    os._exit(0)
