"""Class-balanced subsets of a data set."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mmbam.utils.errors import InputError
from mmbam.utils.files import write_text


def balanced_split(
    labels: Sequence[int],
    fraction: float | None = None,
    per_class: int | None = None,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the same share, or the same number, of samples from each class.

    Args:
        labels (Sequence[int]): The label of each sample.
        fraction (float, optional): Share of each class to draw, in (0, 1). At least one
            sample of a class is drawn, and at least one is left. Defaults to None.
        per_class (int, optional): Number of samples to draw from each class, in place
            of ``fraction``. Defaults to None.
        seed (int): Random seed. Defaults to 0.

    Returns:
        tuple[np.ndarray, np.ndarray]: Sorted indices of the drawn samples, and of all
        others.
    """
    if (fraction is None) == (per_class is None):
        raise InputError('A split needs either fraction or per_class, and not both.')
    if fraction is not None and not 0 < fraction < 1:
        raise InputError(f'fraction must be between 0 and 1, but got {fraction}.')
    if per_class is not None and per_class < 1:
        raise InputError(f'per_class must be at least 1, but got {per_class}.')
    classes = np.asarray(labels)
    if len(classes) == 0:
        raise InputError('A split needs samples, but the data set is empty.')
    if seed < 0:
        raise InputError(f'seed must be at least 0, but got {seed}.')
    rng = np.random.default_rng(seed)
    drawn = np.zeros(len(classes), dtype=bool)
    for label in np.unique(classes):
        members = np.flatnonzero(classes == label)
        need = 2 if per_class is None else per_class
        if len(members) < need:
            raise InputError(
                f'The split needs at least {need} samples of each class, but class '
                f'{label} has {len(members)}.'
            )
        number = per_class
        if fraction is not None:
            number = min(max(1, round(fraction * len(members))), len(members) - 1)
        drawn[rng.permutation(members)[:number]] = True
    return np.flatnonzero(drawn), np.flatnonzero(~drawn)


def write_list(
    path: str | Path, samples: Iterable[tuple[str, int]], root: str | Path
) -> None:
    """Write the ``ann_file`` of an mmpretrain data set: paths and labels, line by line.

    Paths become relative to ``root``, the ``data_prefix`` of the data set.
    """
    lines = [f'{os.path.relpath(image, root)} {label}\n' for image, label in samples]
    write_text(path, ''.join(lines))
