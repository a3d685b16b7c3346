"""Boxes for ContrastiveCrop, refreshed during training."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from mmengine.hooks import Hook
from mmengine.runner import IterBasedTrainLoop, Runner

from mmbam.datasets.boxes import BoxTable
from mmbam.datasets.leaves import hand_to_transforms, leaf_datasets
from mmbam.datasets.plain_images import PlainImages
from mmbam.engine.localize import localize
from mmbam.engine.loops import batches_done
from mmbam.registry import HOOKS
from mmbam.utils.errors import InputError
from mmbam.utils.model import unwrap

KEY = 'mmbam_boxes'


@HOOKS.register_module()
@dataclass(eq=False)
class LocalizeHook(Hook):
    """Localize the training set every few epochs, for ContrastiveCrop.

    Until ``start_epoch`` crops are random. Then, before that epoch and every
    ``interval`` epochs, the teacher's backbone (the student's if there is no teacher)
    sees a plain resize of every training image. The box around what it attends to goes
    into a table in shared memory, which the crops of all data-loader workers read. The
    boxes are saved in every checkpoint and restored on resume.

    Args:
        start_epoch (int): Number of epochs with random crops. Defaults to 40, as in the
            paper.
        interval (int): Number of epochs between refreshes. Defaults to 20, as in the
            paper.
        image_size (int): Height and width of the plain resizes. Defaults to 224.
        batch_size (int): Number of images in a batch on each rank. Defaults to 256.
        num_workers (int, optional): Number of data-loader workers on each rank.
            Defaults to None: as many as the training data loader has.
        threshold (float): Value of a heat map, scaled to [0, 1], above which a pixel is
            inside the box. Defaults to 0.1, as in ContrastiveCrop.
    """

    start_epoch: int = 40
    interval: int = 20
    image_size: int = 224
    batch_size: int = 256
    num_workers: int | None = None
    threshold: float = 0.1

    def __post_init__(self) -> None:
        lowest = dict(
            start_epoch=0, interval=1, image_size=1, batch_size=1, num_workers=0
        )
        for name, least in lowest.items():
            value = getattr(self, name)
            if name == 'num_workers' and value is None:
                continue
            if not isinstance(value, int) or value < least:
                raise InputError(
                    f'LocalizeHook: {name} must be an integer of at least {least}, '
                    f'got {value!r}.'
                )
        if not 0 <= self.threshold < 1:
            raise InputError(
                f'LocalizeHook: threshold must be in [0, 1), got {self.threshold}.'
            )
        self._loaded: dict | None = None
        self._localized = False

    def before_train(self, runner: Runner) -> None:
        """Share a table with the crops before any worker starts."""
        if isinstance(runner.train_loop, IterBasedTrainLoop):
            raise InputError(
                'LocalizeHook counts epochs: train with EpochBasedTrainLoop '
                '(`by_epoch=True`), not with IterBasedTrainLoop.'
            )
        leaves = leaf_datasets(runner.train_dataloader.dataset)
        self._images = PlainImages(leaves, self.image_size)
        self._table = BoxTable(len(self._images))
        for set_boxes, start, stop in hand_to_transforms(leaves, 'set_boxes'):
            set_boxes(self._table.slice(start, stop))
        self._localized = False
        # At iteration 0 the checkpoint was loaded to start from, not to resume.
        if self._loaded is not None and runner.iter > 0:
            self._restore(self._loaded)
        self._loaded = None

    def before_train_epoch(self, runner: Runner) -> None:
        """Refresh the boxes if it is time."""
        passed = runner.epoch - self.start_epoch
        # The boxes of an epoch that goes on are those that it began with.
        current = passed % self.interval or batches_done(runner)
        if passed < 0 or (current and self._localized):
            return
        if passed % self.interval:
            runner.logger.warning(
                'The checkpoint holds no boxes although ContrastiveCrop started '
                f'{passed} epochs ago: localizing now.'
            )
        self._localize(runner)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Save the boxes."""
        if self._localized:
            checkpoint[KEY] = dict(
                boxes=self._table.read(), lengths=self._images.lengths
            )

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Keep the boxes until training knows whether it is resumed."""
        self._loaded = checkpoint.get(KEY)

    @property
    def boxes(self) -> torch.Tensor | None:
        """The boxes of all images, or None while crops are random."""
        return self._table.read() if self._localized else None

    def _restore(self, loaded: dict) -> None:
        if list(loaded['lengths']) != self._images.lengths:
            raise InputError(
                'The checkpoint has boxes for training sets of '
                f'{list(loaded["lengths"])} images, but this run trains on '
                f'{self._images.lengths}: resume with the same data, or start a new '
                'run from the weights with `load_from`.'
            )
        self._table.write(loaded['boxes'])
        self._localized = True

    def _localize(self, runner: Runner) -> None:
        model = unwrap(runner.model)
        backbone = getattr(model, 'target_backbone', None)
        if backbone is None:
            backbone = getattr(model, 'backbone', None)
        if backbone is None:
            raise InputError(
                f'LocalizeHook needs a model with a `backbone`, which '
                f'{type(model).__name__} does not have.'
            )
        loader = runner.train_dataloader
        workers = self.num_workers
        if workers is None:
            workers = loader.num_workers
        began = time.perf_counter()
        boxes, failed, messages = localize(
            backbone,
            model.data_preprocessor,
            self._images,
            batch_size=self.batch_size,
            num_workers=workers,
            threshold=self.threshold,
            start_method=loader.multiprocessing_context if workers else None,
        )
        self._table.write(boxes)
        self._localized = True
        for message in messages:
            runner.logger.warning(f'No box for an image that cannot be read: {message}')
        sides = boxes[:, 2:] - boxes[:, :2]
        area = torch.nan_to_num(sides.prod(dim=1), nan=1.0).mean().item()
        runner.logger.info(
            f'Localized {len(boxes)} images in {time.perf_counter() - began:.1f} s: '
            f'boxes cover {100 * area:.1f} % of an image on average, {failed} images '
            'could not be read.'
        )
