"""Data sets of images with and without labels, and loaders that read them in order."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.dataset import BaseDataset, Compose, DefaultSampler, default_collate
from mmengine.registry import DATASETS
from torch.utils.data import DataLoader, Dataset, Subset

from mmbam.datasets.folder import dataset_of
from mmbam.utils.config import build_errors
from mmbam.utils.errors import InputError, input_errors


def build_loader(
    dataset: dict | BaseDataset,
    batch_size: int = 64,
    num_workers: int = 2,
    fraction: float = 1.0,
    seed: int = 0,
) -> DataLoader:
    """Build a loader of a data set in order, shared among the ranks.

    Args:
        dataset (dict | BaseDataset): A data set or its config.
        batch_size (int): Number of images per batch and rank. Defaults to 64.
        num_workers (int): Number of worker processes per rank. Defaults to 2.
        fraction (float): Share of the samples to read, in (0, 1], rounded up and drawn
            regardless of the labels. Defaults to 1.0.
        seed (int): Seed of that draw, which is the same on every rank. Defaults to 0.
    """
    if not 0 < fraction <= 1:
        raise InputError(f'fraction must be in (0, 1], but got {fraction}.')
    if isinstance(dataset, dict):
        dataset = build_dataset(dataset)
    if len(dataset) == 0:
        raise InputError('An evaluation needs samples, but the data set is empty.')
    if fraction < 1:
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randperm(len(dataset), generator=generator)
        chosen = chosen[: math.ceil(fraction * len(dataset))].sort().values
        dataset = Subset(dataset, chosen.tolist())
    with input_errors((ValueError,)):  # of batch_size and num_workers
        return DataLoader(
            dataset,
            batch_size=batch_size,
            sampler=DefaultSampler(dataset, shuffle=False, seed=seed),
            num_workers=num_workers,
            collate_fn=default_collate,
        )


def build_dataset(cfg: dict) -> BaseDataset:
    """Build a data set; wrong or missing images and lists raise InputError."""
    place = f'{cfg["type"]} in {cfg.get("data_root") or "its folder"!r}'
    with build_errors(of=place), input_errors(of=place):
        return DATASETS.build(cfg)


def require_comparable(train: Any, test: Any) -> None:
    """Refuse a training and a test set that are the same, or of other classes."""
    known, asked = (getattr(dataset, 'CLASSES', None) for dataset in (train, test))
    if known and asked and list(known) != list(asked):
        raise InputError(
            'The training and the test set must have the same classes in the same '
            f'order, but {_some(sorted(set(known) - set(asked)))} are only in the '
            f'training set and {_some(sorted(set(asked) - set(known)))} only in the '
            'test set.'
        )
    ends = _ends(train)
    if ends and len(train) == len(test) and ends == _ends(test):
        raise InputError(
            'The training and the test set must differ, but both hold the images in '
            f'{os.path.dirname(os.path.dirname(ends[0]))!r}: each image would find '
            'itself.'
        )


def _ends(dataset: Any) -> tuple[str, str] | None:
    """Real paths of the first and the last image, or None without paths."""
    try:
        paths = [dataset.get_data_info(i)['img_path'] for i in (0, len(dataset) - 1)]
    except (AttributeError, KeyError):
        return None
    return os.path.realpath(paths[0]), os.path.realpath(paths[1])


def _some(names: list[str], most: int = 3) -> str:
    if not names:
        return 'none'
    more = f' and {len(names) - most} more' if len(names) > most else ''
    return ', '.join(map(repr, names[:most])) + more


def images_in(folder: str | Path, pipeline: list[dict]) -> BaseDataset:
    """Build the data set of all images in a folder, or in shards."""
    return build_dataset(dataset_of(folder, pipeline=pipeline))


def image_names(dataset: BaseDataset, folder: str | Path) -> list[str]:
    """Paths of a data set's images, in order, as seen from a folder."""
    paths = [
        dataset.get_data_info(index).get('img_path', f'sample {index}')
        for index in range(len(dataset))
    ]
    front = os.path.join(folder, '')
    names = [path.removeprefix(front) for path in paths]
    broken = [name for name in names if '\n' in name]
    if broken:
        raise InputError(f'A file must have no line break in its name: {broken[0]!r}.')
    return names


class ImageFiles(Dataset):
    """Single image files, seen through a pipeline."""

    def __init__(self, paths: Sequence[str | Path], pipeline: list[dict]) -> None:
        for path in paths:
            if not os.path.isfile(path):
                raise InputError(f'There is no image {str(path)!r}.')
        self.paths = [str(path) for path in paths]
        self.pipeline = Compose(pipeline)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.pipeline(dict(img_path=self.paths[index], sample_idx=index))
