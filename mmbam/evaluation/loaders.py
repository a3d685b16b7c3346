"""Loaders that read a data set once, in order."""

from __future__ import annotations

import math

import torch
from mmengine.dataset import BaseDataset, DefaultSampler, default_collate
from mmengine.registry import DATASETS
from torch.utils.data import DataLoader, Subset

from mmbam.utils.errors import InputError, input_errors


def build_loader(
    dataset: dict | BaseDataset,
    batch_size: int = 64,
    num_workers: int = 2,
    fraction: float = 1.0,
    seed: int = 0,
) -> DataLoader:
    """Build a loader for :func:`extract_features`.

    Args:
        dataset (dict | BaseDataset): A data set or its config.
        batch_size (int): Number of images per batch and rank. Defaults to 64.
        num_workers (int): Number of worker processes per rank. Defaults to 2.
        fraction (float): Share of the samples to read, in (0, 1], rounded up and drawn
            regardless of the labels. Defaults to 1.0.
        seed (int): Seed of that draw, which is the same on every rank. Defaults to 0.

    Returns:
        DataLoader: Loader of the data set in order, shared among the ranks.
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
    """Build a data set.

    Args:
        cfg (dict): Config of the data set.

    Raises:
        InputError: If images or lists are missing, or not as the data set expects.
    """
    with input_errors(of=f'{cfg["type"]} in {cfg.get("data_root") or "its folder"!r}'):
        return DATASETS.build(cfg)
