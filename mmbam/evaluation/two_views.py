"""Two views of each of some images, drawn once and shown to any number of networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset

from mmbam.datasets.seeded import SeededSamples
from mmbam.models.latents import embed_views
from mmbam.utils.errors import InputError
from mmbam.utils.model import frozen
from mmbam.utils.progress import with_progress
from mmbam.utils.random import preserved_randomness

from .features import preprocess
from .frozen import multi_view_dataset
from .images import images_in
from .loaders import build_dataset, build_loader

#: Batches, each of the first and the second views of its images.
Views = Sequence[Sequence[Tensor]]


def view_dataset(cfg: Config, images: str | None = None) -> Dataset:
    """Build the data set whose views a config trains on.

    Args:
        cfg (Config): Config of pre-training.
        images (str, optional): Folder of images or of shards to see through its
            pipeline instead. Labels are not needed. Defaults to None.
    """
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    dataset = multi_view_dataset(cfg)
    if images is None:
        if 'type' not in dataset:
            raise InputError(
                'A checkpoint without a config beside it does not name its images: '
                'give --images or --config.'
            )
        return build_dataset(dataset)
    if 'pipeline' not in dataset:
        raise InputError(
            'The training set of the config has no pipeline of its own that would fit '
            'a folder: leave out --images.'
        )
    return images_in(images, dataset['pipeline'])


def draw_views(
    dataset: Any,
    number: int,
    seed: int = 0,
    batch_size: int = 64,
    num_workers: int = 2,
) -> Views:
    """Draw images of a data set and two views of each, and keep them in memory.

    Args:
        dataset (Dataset): Multi-view data set, as :func:`view_dataset` builds it.
        number (int): Number of images; fewer if there are fewer.
        seed (int): Seed of the choice of images and of their views, which do not depend
            on ``num_workers``. Defaults to 0.
        batch_size (int): Number of images per batch. Defaults to 64.
        num_workers (int): Number of worker processes. Defaults to 2.
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
    backbone: nn.Module, preprocessor: nn.Module, views: Views
) -> Tensor:
    """Embed both views of all images; the result has the shape (2, n, d)."""
    found = []
    with frozen(backbone):
        for batch in views:
            inputs = [preprocess(v, None, backbone, preprocessor) for v in batch]
            embeddings = embed_views(backbone, None, inputs).float().cpu()
            found.append(embeddings.unflatten(0, (2, -1)))
    return torch.cat(found, dim=1)
