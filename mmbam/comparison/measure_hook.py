"""Time, memory, losses and quality of a run while it trains."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from mmengine.dataset import BaseDataset
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from mmbam.evaluation import (
    build_loader,
    extract_features,
    knn_accuracy,
    linear_probe,
    neighbour_agreement,
    rankme,
)
from mmbam.evaluation.frozen import LOAD
from mmbam.evaluation.loaders import build_dataset

from .method import fill, two_views
from .settings import Settings

VIEWED = 1000  # images at most whose two views are compared
NEIGHBOURS = 10  # in which two views of an image should agree


class MeasureHook(Hook):
    """Record loss and time of every step, the peak of memory, and quality over time.

    The record is part of the checkpoints, so that a continued run has all of it. Times
    are mmengine's, without evaluation.

    Args:
        loaders (dict[str, DataLoader]): Loaders to evaluate on, see
            :func:`build_loaders`.
        network (Callable[[nn.Module], nn.Module]): Function that takes the network to
            evaluate out of the model.
        evaluations (int): Number of evaluations after the one at the start.
        base_lr (float, optional): Learning rate of the linear probe, per 256 images.
            None if there are no labels to measure accuracies by.
        memory_before (int, optional): Bytes of the process before the model was built.
            None if the system does not tell.
    """

    priority = 'LOW'  # after the timer, before checkpoints are written

    def __init__(
        self,
        loaders: dict[str, DataLoader],
        network: Callable[[nn.Module], nn.Module],
        evaluations: int,
        base_lr: float | None,
        memory_before: int | None,
    ) -> None:
        self.loaders = loaders
        self.network = network
        self.evaluations = evaluations
        self.base_lr = base_lr
        self.memory_before = memory_before
        self.record = self._nothing()

    def before_train(self, runner: Runner) -> None:
        """Evaluate the random network."""
        if runner.epoch == 0:
            self.record = self._nothing()
            self._evaluate(runner, 0)

    def before_train_epoch(self, runner: Runner) -> None:
        """Start measuring the peak of memory."""
        reset_peak()

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch=None, outputs=None
    ) -> None:
        """Record a step; end the run if its loss is not finite."""
        loss = float(outputs['loss'])
        if not math.isfinite(loss):
            raise RuntimeError(f'The loss of step {runner.iter + 1} is {loss}.')
        self.record['losses'].append(loss)
        for key, name in (('times', 'time'), ('waits', 'data_time')):
            value = runner.message_hub.get_scalar(f'train/{name}').current()
            self.record[key].append(float(value))

    def after_train_epoch(self, runner: Runner) -> None:
        """Evaluate at equal intervals and at the end."""
        peak = peak_memory(self.memory_before)
        if peak is not None:
            self.record['peak'] = max(peak, self.record['peak'] or 0)
        done, last = runner.epoch + 1, runner.max_epochs
        share = self.evaluations / last
        if done == last or math.floor(done * share) > math.floor((done - 1) * share):
            self._evaluate(runner, done)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Save the record with the weights."""
        checkpoint['comparison'] = self.record

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Restore the record of an interrupted run."""
        self.record = checkpoint['comparison']

    def features(
        self, model: nn.Module, *parts: str
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Return features and labels of the images of some loaders."""
        options = dict(data_preprocessor=model.data_preprocessor, progress=False)
        network = self.network(model)
        return {
            part: extract_features(network, self.loaders[part], **options)
            for part in parts
        }

    @staticmethod
    def _nothing() -> dict:
        return dict(times=[], waits=[], losses=[], history=[], peak=None)

    def _evaluate(self, runner: Runner, epoch: int) -> None:
        found = self.features(runner.model, 'test', 'first', 'second')
        test, first, second = found['test'], found['first'][0], found['second'][0]
        k = min(NEIGHBOURS, len(first) - 1)
        point = dict(
            epoch=epoch,
            seconds=sum(self.record['times']),
            rankme=rankme(test[0]),
            agreement=neighbour_agreement(first, second, k),
        )
        if self.base_lr is not None:
            train = self.features(runner.model, 'train')['train']
            k = min(20, len(train[0]))
            point['knn'] = knn_accuracy(*train, *test, k=k)['top1']
            point['linear'] = linear_probe(*train, *test, base_lr=self.base_lr)['top1']
        self.record['history'].append(point)


def memory_now() -> int | None:
    """Return the bytes of this process; 0 on a GPU, where torch counts only tensors."""
    return 0 if torch.cuda.is_available() else _status('VmRSS')


def reset_peak() -> None:
    """Reset the peak of memory to the present use."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    else:
        with contextlib.suppress(OSError):  # not Linux, or not allowed
            Path('/proc/self/clear_refs').write_text('5')


def peak_memory(before: int | None) -> int | None:
    """Return the peak in bytes above ``before``, None if the system does not tell."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    peak = _status('VmHWM')
    return None if peak is None or before is None else peak - before


def _status(field: str) -> int | None:
    try:
        text = Path('/proc/self/status').read_text()
    except OSError:
        return None
    found = re.search(rf'{field}:\s*(\d+) kB', text)
    return int(found[1]) * 1024 if found else None


class Pairs(Dataset):
    """Pairs of an image and its label, which is 0 if there are no labels.

    Args:
        dataset (BaseDataset): Data set of packed images, or of several views of each.
        view (int, optional): Number of the view to take. A view is the same each time
            it is read. Defaults to None: the data set has no views.
    """

    def __init__(self, dataset: BaseDataset, view: int | None = None) -> None:
        self.dataset = dataset
        self.view = view

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.view is not None:
            np.random.seed((index, self.view))
        packed = self.dataset[index]
        image = packed['inputs'] if self.view is None else packed['inputs'][self.view]
        return image, int(packed['data_samples'].get('gt_label', 0))


def build_loaders(settings: Settings) -> dict[str, DataLoader]:
    """Build loaders of ``train``, ``test``, and ``first`` and ``second`` views."""
    datasets = settings.datasets()
    parts: dict[str, Dataset] = {
        part: Pairs(build_dataset(datasets[part])) for part in ('train', 'test')
    }
    views = fill(two_views(), dict(size=settings.size))
    pipeline = [LOAD, *views, dict(type='mmpretrain.PackInputs')]
    tested = build_dataset({**datasets['test'], 'pipeline': pipeline})
    shown = np.linspace(0, len(tested) - 1, min(VIEWED, len(tested))).astype(int)
    for number, part in enumerate(('first', 'second')):
        parts[part] = Subset(Pairs(tested, number), shown.tolist())
    return {
        part: build_loader(of, batch_size=256, num_workers=0)
        for part, of in parts.items()
    }
