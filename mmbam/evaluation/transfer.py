"""Data sets of the linear transfer evaluation, and its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from mmbam.datasets.splits import balanced_split
from mmbam.utils.errors import InputError

from .frozen import class_folders, plain_pipeline
from .logistic import logistic_probe

# Name: mmpretrain's data set, and its splits for training, validation and test. A part
# of the training set is held out where there is no split for validation.
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
    """Describe the splits of a data set, with images resized and center-cropped.

    Args:
        name (str): One of ``TRANSFER_SETS``, or any other name for class folders in
            ``root/train``, ``root/test`` and optionally ``root/val``.
        root (str | Path): Folder of the data set.
        size (int): Height and width of the images, in pixels. Defaults to 224.

    Returns:
        dict[str, dict | None]: Configs of ``train``, ``val`` (None if there is no such
        split) and ``test``.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(f'{name}: there is no folder {str(root)!r}.')
    pipeline: list = plain_pipeline(size)
    if name not in TRANSFER_SETS:
        folders = {role: root / role for role in ('train', 'val', 'test')}
        return {
            role: class_folders(folder, pipeline)
            if role != 'val' or folder.is_dir()
            else None
            for role, folder in folders.items()
        }
    kind, *splits = TRANSFER_SETS[name]
    common: dict[str, Any] = dict(
        type=f'mmpretrain.{kind}', data_root=str(root), pipeline=pipeline
    )
    if kind.startswith('CIFAR'):
        # RGB arrays instead of files. A wrong folder must be named, not filled.
        common.update(pipeline=[rgb_to_bgr, *pipeline[1:]], download=False)
    return {
        role: dict(common, split=split) if split else None
        for role, split in zip(('train', 'val', 'test'), splits)
    }


def rgb_to_bgr(results: dict) -> dict:
    """Reverse the channels, as OpenMMLab's preprocessors expect; a transform."""
    results['img'] = results['img'][..., ::-1].copy()
    return results


def transfer_row(
    datasets: Mapping[str, Any],
    features_of: Callable[[dict | Dataset], tuple[Tensor, Tensor]],
    val_fraction: float = 0.2,
    **options,
) -> dict:
    """Evaluate one data set by :func:`logistic_probe`, and return its result.

    ``datasets`` is the result of :func:`transfer_datasets`, or the data sets built from
    it; ``features_of`` returns features and labels of one. If there is no validation
    set, the share ``val_fraction`` of each class of the training set is held out.
    ``options`` are arguments of :func:`logistic_probe`.
    """
    train, test = features_of(datasets['train']), features_of(datasets['test'])
    if datasets['val'] is not None:
        val = features_of(datasets['val'])
    else:
        held_out, rest = (
            torch.from_numpy(part)
            for part in balanced_split(train[1].numpy(), val_fraction)
        )
        val = train[0][held_out], train[1][held_out]
        train = train[0][rest], train[1][rest]
    return logistic_probe(train, val, test, **options)


def table_rows(rows: Mapping[str, Mapping]) -> list[list[str]]:
    """Format results as one row per data set and, if there are several, their mean.

    ``rows`` are results of :func:`transfer_row` by data set. The columns are name,
    top-1 and mean per-class accuracy, and l2.
    """
    keys = ('top1', 'mean_per_class')
    table = [
        [name, *(f'{row[key]:.2f}' for key in keys), f'{row["l2"]:.1e}']
        for name, row in rows.items()
    ]
    if len(rows) > 1:
        means = (sum(row[key] for row in rows.values()) / len(rows) for key in keys)
        table.append(['mean', *(f'{mean:.2f}' for mean in means), ''])
    return table
