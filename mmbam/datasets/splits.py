"""Class-balanced parts of a data set."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mmbam.utils.errors import InputError


def balanced_split(
    labels: Sequence[int],
    fraction: float | None = None,
    per_class: int | None = None,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the same share, or the same number, of samples of each class.

    Args:
        labels (Sequence[int]): The label of each sample.
        fraction (float, optional): Share of each class to draw, in (0, 1), rounded to
            at least 1 and so that at least 1 is left. Defaults to None.
        per_class (int, optional): Number of each class to draw instead. Defaults to
            None.
        seed (int): Of the draw. Defaults to 0.

    Returns:
        tuple[np.ndarray, np.ndarray]: Sorted indices of the samples that were drawn,
        and of the others.
    """
    if (fraction is None) == (per_class is None):
        raise InputError('A split needs either fraction or per_class, and not both.')
    if fraction is not None and not 0 < fraction < 1:
        raise InputError(f'fraction must be between 0 and 1, but got {fraction}.')
    if per_class is not None and per_class < 1:
        raise InputError(f'per_class must be at least 1, but got {per_class}.')
    labels = np.asarray(labels)
    if len(labels) == 0:
        raise InputError('A split needs samples, but the data set is empty.')
    rng = np.random.default_rng(seed)
    drawn = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        need = 2 if per_class is None else per_class
        if len(members) < need:
            raise InputError(
                f'The split needs at least {need} samples of each class, but class '
                f'{label} has {len(members)}.'
            )
        number = per_class
        if number is None:
            number = min(max(1, round(fraction * len(members))), len(members) - 1)
        drawn[rng.permutation(members)[:number]] = True
    return np.flatnonzero(drawn), np.flatnonzero(~drawn)


def write_list(
    path: str | Path, samples: Iterable[tuple[str, int]], root: str | Path
) -> None:
    """Write samples as mmpretrain's data sets read them from ``ann_file``.

    Args:
        path (str | Path): The file: one line per sample, its path and its label.
        samples (Iterable[tuple[str, int]]): Paths of images and labels.
        root (str | Path): The folder that the paths are written relative to, the
            ``data_prefix`` of the data set.
    """
    lines = [f'{os.path.relpath(image, root)} {label}\n' for image, label in samples]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(''.join(lines))
