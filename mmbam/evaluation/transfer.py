"""The data sets of the transfer evaluation, and its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from mmbam.datasets.splits import balanced_split
from mmbam.utils.errors import InputError

from .frozen import class_folders, plain_pipeline
from .logistic import logistic_probe

# Name: mmpretrain's data set, and its splits to train, to validate and to test on.
# Where there is none to validate on, a part of the training set is held out.
TRANSFER_SETS = {
    'food101': ('Food101', 'train', None, 'test'),
    'cifar10': ('CIFAR10', 'train', None, 'test'),
    'cifar100': ('CIFAR100', 'train', None, 'test'),
    'cars': ('StanfordCars', 'train', None, 'test'),
    'aircraft': ('FGVCAircraft', 'train', 'val', 'test'),
    'pets': ('OxfordIIITPet', 'trainval', None, 'test'),
    'flowers': ('Flowers102', 'train', 'val', 'test'),
}


def transfer_datasets(
    name: str, root: str | Path, size: int = 224
) -> dict[str, dict | None]:
    """Configs of a data set's splits, its images resized and cropped in the middle.

    Args:
        name (str): One of ``TRANSFER_SETS``; any other name is that of class folders in
            ``root/train``, ``root/test`` and perhaps ``root/val``.
        root (str | Path): Where the data set is.
        size (int): Of the images, in pixels. Defaults to 224.

    Returns:
        dict[str, dict | None]: ``train``, ``val`` (None if there is none) and ``test``.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(f'{name}: there is no folder {str(root)!r}.')
    pipeline = plain_pipeline(size)
    if name not in TRANSFER_SETS:
        return dict(
            train=class_folders(root / 'train', pipeline),
            val=class_folders(root / 'val', pipeline)
            if (root / 'val').is_dir()
            else None,
            test=class_folders(root / 'test', pipeline),
        )
    kind, *splits = TRANSFER_SETS[name]
    options = {}
    if kind.startswith('CIFAR'):  # arrays, no files, and RGB
        pipeline = [rgb_to_bgr, *pipeline[1:]]
        options = dict(download=False)  # a wrong folder is to be named, not filled
    return {
        role: split
        and dict(
            type=f'mmpretrain.{kind}',
            data_root=str(root),
            split=split,
            pipeline=pipeline,
            **options,
        )
        for role, split in zip(('train', 'val', 'test'), splits)
    }


def rgb_to_bgr(results: dict) -> dict:
    """A transform: the order of channels that OpenMMLab's preprocessors expect."""
    results['img'] = results['img'][..., ::-1].copy()
    return results


def transfer_row(
    datasets: Mapping[str, dict | Dataset | None],
    features_of: Callable[[dict | Dataset], tuple[Tensor, Tensor]],
    val_fraction: float = 0.2,
    seed: int = 0,
    **options,
) -> dict:
    """Evaluate one data set by :func:`logistic_probe`.

    Args:
        datasets (Mapping): What :func:`transfer_datasets` returned, or the data sets
            built from it.
        features_of (Callable): From one of them to features and labels.
        val_fraction (float): Share of each class of the training set to validate on if
            there is no validation set. Defaults to 0.2.
        seed (int): Of that split. Defaults to 0.
        **options: Handed to :func:`logistic_probe`.

    Returns:
        dict: What :func:`logistic_probe` returns.
    """
    train, test = features_of(datasets['train']), features_of(datasets['test'])
    if datasets['val'] is not None:
        val = features_of(datasets['val'])
    else:
        held_out, rest = (
            torch.from_numpy(part)
            for part in balanced_split(train[1].numpy(), val_fraction, seed=seed)
        )
        val = train[0][held_out], train[1][held_out]
        train = train[0][rest], train[1][rest]
    return logistic_probe(train, val, test, **options)


def format_table(rows: Mapping[str, Mapping]) -> str:
    """A table with one row per data set, and their means."""
    lines = [f'{"data set":12}{"top-1":>8}{"per class":>11}{"l2":>10}']
    for name, row in rows.items():
        lines.append(
            f'{name:12}{row["top1"]:8.2f}{row["mean_per_class"]:11.2f}{row["l2"]:10.1e}'
        )
    if len(rows) > 1:
        top1, per_class = (
            sum(row[key] for row in rows.values()) / len(rows)
            for key in ('top1', 'mean_per_class')
        )
        lines.append(f'{"mean":12}{top1:8.2f}{per_class:11.2f}')
    return '\n'.join(lines)
