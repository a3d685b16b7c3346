"""Images that are drawn once and shown to any number of networks.

Two views of each, or labeled images for the accuracy of k-NN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from mmbam.datasets.seeded import SeededSamples
from mmbam.models.latents import embed_views
from mmbam.utils.errors import InputError
from mmbam.utils.model import frozen
from mmbam.utils.progress import with_progress
from mmbam.utils.random import preserved_randomness

from .features import extract_features, preprocess, stack_images
from .frozen import multi_view_dataset
from .knn import knn_accuracy
from .labeled import train_and_test
from .loaders import build_dataset, build_loader

#: Batches, each of the first and the second views of its images.
Views = Sequence[Sequence[Tensor]]


def view_dataset(cfg: Config, images: str | None = None) -> Dataset:
    """Build the data set whose views a config of pre-training trains on.

    With ``images``, a folder of images or of shards is seen through its pipeline
    instead. Labels are not needed.
    """
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    dataset = multi_view_dataset(cfg, images, labels=False)
    if 'type' not in dataset:
        raise InputError(
            'A checkpoint without a config beside it does not name its images: '
            'give --images or --config.'
        )
    return build_dataset(dataset)


def draw_views(
    dataset: Any,
    number: int,
    seed: int = 0,
    batch_size: int = 64,
    num_workers: int = 2,
) -> Views:
    """Draw images of a data set and two views of each, and keep them in memory.

    All images are taken if there are fewer than ``number``. The choice of images and
    their views depend on the seed, not on ``num_workers``.
    """
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(dataset), generator=generator)[:number].sort().values
    seeded: Any = SeededSamples(dataset, torch.tensor([seed, 0]))
    loader = build_loader(Subset(seeded, chosen.tolist()), batch_size, num_workers)
    with preserved_randomness():
        return [
            # Without the local views, whose memory this frees.
            list(first_views(batch))
            for batch in with_progress(loader, len(loader), 'Views')
        ]


def first_views(batch: Mapping) -> Sequence[Tensor]:
    """Return the first two views of a batch."""
    views = batch['inputs']
    if isinstance(views, Tensor) or len(views) < 2:
        raise InputError(
            'Pairs need two views of each image, but the data set gives one: its '
            'pipeline must have mmbam.MultiCrop or mmpretrain.MultiView.'
        )
    return views[:2]


def embed_two_views(
    backbone: nn.Module,
    preprocessor: nn.Module,
    views: Iterable[Sequence[Tensor]],
    neck: nn.Module | None = None,
) -> Tensor:
    """Embed both views of all images; the result has the shape (2, n, d).

    A projector, the ``neck``, gives latents as the loss compares them.
    """
    found = []
    with frozen(nn.ModuleList([backbone, *([neck] if neck is not None else [])])):
        for batch in views:
            inputs = [preprocess(v, None, backbone, preprocessor) for v in batch]
            embeddings = embed_views(backbone, neck, inputs).float().cpu()
            found.append(embeddings.unflatten(0, (2, -1)))
    return torch.cat(found, dim=1)


_VOTES = 20  # neighbors that vote
MOST_TRAIN, MOST_TEST = 10_000, 5_000


class Truth:
    """Labeled images, which are read once and kept in memory.

    Args:
        folder (str): Folder for :func:`mmbam.evaluation.labeled.train_and_test`. At
            most 10,000 training and 5,000 test images of it are drawn.
        pipeline (list[dict]): Transforms of the images.
        batch_size (int): Number of images per batch.
        num_workers (int): Number of processes that load images.
    """

    def __init__(
        self, folder: str, pipeline: list[dict], batch_size: int, num_workers: int
    ) -> None:
        train, test, _ = train_and_test(folder, pipeline)
        self.train = _read(train, MOST_TRAIN, batch_size, num_workers)
        self.test = _read(test, MOST_TEST, batch_size, num_workers)

    def accuracy(self, backbone: nn.Module, preprocessor: nn.Module) -> float:
        """Measure the top-1 accuracy in per cent; NaN if features are not finite."""
        (train, labels), test = (
            extract_features(
                backbone, loader, data_preprocessor=preprocessor, progress=False
            )
            for loader in (self.train, self.test)
        )
        if not (train.isfinite().all() and test[0].isfinite().all()):
            return math.nan
        k = min(_VOTES, len(labels))
        return knn_accuracy(train, labels, *test, k=k)['top1']


def _read(cfg: dict, most: int, batch_size: int, num_workers: int) -> DataLoader:
    dataset = build_dataset(cfg)
    share = min(1.0, most / max(1, len(dataset)))
    loader = build_loader(dataset, batch_size, num_workers, fraction=share)
    images, labels = [], []
    for batch in with_progress(loader, len(loader), 'Labeled images'):
        images.append(stack_images(batch['inputs']))
        labels += [int(sample.gt_label) for sample in batch['data_samples']]
    kept = TensorDataset(torch.cat(images), torch.tensor(labels))
    return DataLoader(kept, batch_size=batch_size)
