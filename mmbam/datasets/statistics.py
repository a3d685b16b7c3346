"""Mean and standard deviation of each band over many images."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from mmbam.utils.errors import InputError
from mmbam.utils.progress import Progress


class BandStatistics:
    """Mean and deviation of each band, updated image by image.

    Every pixel counts alike, so large images count more. Each image's own sums are in
    float64 and merged by Chan's formula, which loses no digits where the mean is large.
    """

    def __init__(self) -> None:
        self.pixels = 0
        self.mean: np.ndarray = np.zeros(0)
        self._squares: np.ndarray = np.zeros(0)

    def add(self, image: np.ndarray) -> None:
        """Add an image of shape (height, width, bands)."""
        values = image.reshape(-1, image.shape[2])
        mean = values.mean(axis=0, dtype=np.float64)
        squares = values.var(axis=0, dtype=np.float64) * len(values)
        if not self.pixels:
            self.mean, self._squares = np.zeros_like(mean), np.zeros_like(mean)
        total = self.pixels + len(values)
        away = mean - self.mean
        self._squares += squares + away**2 * (self.pixels * len(values) / total)
        self.mean = self.mean + away * (len(values) / total)
        self.pixels = total

    @property
    def std(self) -> np.ndarray:
        """Standard deviation of each band."""
        return np.sqrt(self._squares / self.pixels)


def band_statistics(
    files: Iterable[Path],
    load: Callable[[dict], dict | None],
    number: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> tuple[BandStatistics, int]:
    """Measure mean and deviation of each band, one image in memory at a time.

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
    statistics, used = BandStatistics(), 0
    with Progress(len(files), 'Images', show=progress) as bar:
        for file in files:
            results = load(dict(img_path=str(file)))
            if results is not None:
                statistics.add(results['img'])
                used += 1
            bar.advance()
    if not used:
        raise InputError('None of the images can be read.')
    return statistics, used
