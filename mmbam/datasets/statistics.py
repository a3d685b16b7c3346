"""Mean and standard deviation of each band over many images."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmbam.utils.errors import InputError
from mmbam.utils.progress import Progress


class BandStatistics(NamedTuple):
    """Mean and deviation of each band, and the number of pixels that they are of."""

    mean: np.ndarray
    std: np.ndarray
    pixels: int


def band_statistics(
    files: Iterable[Path],
    load: Callable[[dict], dict | None],
    number: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> tuple[BandStatistics, int]:
    """Measure mean and deviation of each band, one image in memory at a time.

    Every pixel counts alike, so large images count more.

    Args:
        files (Iterable[Path]): Image files.
        load (Callable): Transform that loads an image, such as
            :class:`mmbam.LoadImage`, which counts and leaves out unreadable ones.
        number (int, optional): Number of images to draw. Defaults to None: all.
        seed (int): Seed of that draw. Defaults to 0.
        progress (bool): Whether to show a progress bar with the time left. Defaults to
            True.

    Returns:
        tuple[BandStatistics, int]: The statistics, and the number of images in them.
    """
    files = list(files)
    if number is not None and number < len(files):
        chosen = np.random.default_rng(seed).choice(len(files), number, replace=False)
        files = [files[i] for i in sorted(chosen)]
    # Late, because data sets import this room and do not need scikit-learn.
    from sklearn.preprocessing import StandardScaler

    scaler, used = StandardScaler(), 0
    with Progress(len(files), 'Images', show=progress) as bar:
        for file in files:
            results = load(dict(img_path=str(file)))
            if results is not None:
                bands = results['img'].shape[2]
                scaler.partial_fit(results['img'].reshape(-1, bands))
                used += 1
            bar.advance()
    if not used:
        raise InputError('None of the images can be read.')
    pixels = int(scaler.n_samples_seen_)
    return BandStatistics(scaler.mean_, np.sqrt(scaler.var_), pixels), used
