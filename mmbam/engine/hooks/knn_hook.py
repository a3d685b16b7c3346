"""Accuracy of nearest neighbours while a network trains without labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import nn
from torch.utils.data import Dataset

from mmbam.evaluation import build_loader, extract_features, knn_accuracy
from mmbam.evaluation.loaders import build_dataset, require_comparable
from mmbam.registry import HOOKS
from mmbam.utils.errors import InputError
from mmbam.utils.model import unwrap
from mmbam.utils.random import preserved_randomness


@HOOKS.register_module()
@dataclass(eq=False)
class KNNHook(Hook):
    """Classify a labeled test set by its nearest training features every N epochs.

    The accuracies ``knn/top1`` and ``knn/top5`` (per cent) go to the log, to the
    visualisation backends and to the message hub, whose entry ``knn_history`` lists
    ``dict(epoch, iter, top1, top5)`` and survives a resume. Training is not affected:
    modes and random states are restored.

    Args:
        train_dataset (dict | Dataset): Labeled training images with a pipeline for
            testing (no augmentation).
        test_dataset (dict | Dataset): Labeled images to classify.
        interval (int): Number of epochs between evaluations; the last epoch is always
            evaluated. Defaults to 10.
        fraction (float): Share of the training set that is searched, in (0, 1].
            Defaults to 0.1.
        k (int): Number of neighbours that vote. Defaults to 20.
        temperature (float): Temperature of the votes' weights. Defaults to 0.07.
        network (str): Network to evaluate: ``'student'``, or ``'teacher'`` for the
            moving average (the student where there is none). Defaults to
            ``'student'``.
        batch_size (int): Number of images per step and rank. Defaults to 64.
        num_workers (int): Number of data-loader workers per rank. Defaults to 2.
        seed (int): Seed of the choice of the fraction, which is the same every time.
            Defaults to 0.
    """

    train_dataset: dict | Dataset
    test_dataset: dict | Dataset
    interval: int = 10
    fraction: float = 0.1
    k: int = 20
    temperature: float = 0.07
    network: str = 'student'
    batch_size: int = 64
    num_workers: int = 2
    seed: int = 0
    of: str | None = None

    def __post_init__(self) -> None:
        if self.of is not None:
            raise InputError(f'KNNHook: of is now called network, got of={self.of!r}.')
        if self.interval < 1 or self.k < 1:
            raise InputError(
                'KNNHook: interval and k must be at least 1, got '
                f'interval={self.interval} and k={self.k}.'
            )
        if not 0 < self.fraction <= 1:
            raise InputError(
                f'KNNHook: fraction must be in (0, 1], got {self.fraction}.'
            )
        if not 0 < self.temperature < math.inf:
            raise InputError(
                f'KNNHook: temperature must be above 0, got {self.temperature}.'
            )
        if self.network not in ('student', 'teacher'):
            raise InputError(
                "KNNHook: network must be 'student' or 'teacher', got "
                f'{self.network!r}.'
            )

    def before_train(self, runner: Runner) -> None:
        """Build the loaders, so that wrong data sets fail before the first epoch."""
        with preserved_randomness():
            datasets = [
                build_dataset(dataset) if isinstance(dataset, dict) else dataset
                for dataset in (self.train_dataset, self.test_dataset)
            ]
            require_comparable(*datasets)
            self.train_loader = build_loader(
                datasets[0],
                self.batch_size,
                self.num_workers,
                self.fraction,
                self.seed,
            )
            self.test_loader = build_loader(
                datasets[1], self.batch_size, self.num_workers
            )
        self._backbone_of(runner.model)
        dataset: Any = self.train_loader.dataset
        searched = len(dataset)
        if self.k > searched:
            raise InputError(
                f'KNNHook: k={self.k} neighbors need as many training samples, '
                f'but fraction={self.fraction} leaves {searched}.'
            )

    def after_train_epoch(self, runner: Runner) -> None:
        """Evaluate every ``interval`` epochs and after the last one."""
        if self.every_n_epochs(runner, self.interval) or self.is_last_train_epoch(
            runner
        ):
            self._evaluate(runner)

    def _evaluate(self, runner: Runner) -> None:
        backbone, preprocessor = self._backbone_of(runner.model)
        # Each rank keeps its own part of the large set.
        train = extract_features(
            backbone, self.train_loader, data_preprocessor=preprocessor, gather=False
        )
        test = extract_features(
            backbone, self.test_loader, data_preprocessor=preprocessor
        )
        accuracy = knn_accuracy(
            *train, *test, k=self.k, temperature=self.temperature, sharded=True
        )
        self._report(runner, accuracy)

    def _report(self, runner: Runner, accuracy: dict[str, float]) -> None:
        epoch = runner.epoch + 1
        scalars = {f'knn/{name}': value for name, value in accuracy.items()}
        runner.logger.info(
            f'k-NN of the {self.network} after epoch {epoch}: '
            + ', '.join(f'{name} {value:.2f}' for name, value in scalars.items())
        )
        # LoggerHook writes the training log to this file, too.
        runner.visualizer.add_scalars(
            scalars, step=runner.iter, file_path=f'{runner.timestamp}.json'
        )
        runner.message_hub.update_scalars(scalars)
        history = runner.message_hub.get_info('knn_history', [])
        entry = dict(epoch=epoch, iter=runner.iter, **accuracy)
        runner.message_hub.update_info('knn_history', [*history, entry])

    def _backbone_of(self, model: nn.Module) -> tuple[nn.Module, nn.Module]:
        """The backbone to evaluate and the preprocessor of its images."""
        model = unwrap(model)
        name = 'backbone' if self.network == 'student' else 'target_backbone'
        if not hasattr(model, name):
            raise InputError(
                f'KNNHook: network={self.network!r} needs a model with .{name}, but '
                f'{type(model).__name__} has none.'
            )
        return getattr(model, name), model.data_preprocessor
