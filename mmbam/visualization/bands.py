"""Images of a config's bands and bits, read for pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from mmengine.config import Config

from mmbam.datasets.bands import RGB
from mmbam.datasets.decoding import read_image
from mmbam.datasets.transforms import LoadImage
from mmbam.evaluation.frozen import is_rgb, loading_step

BGR = (2, 1, 0)


def image_reader(
    cfg: Config, bands: Sequence[int] | None = None
) -> tuple[Callable[[Path], np.ndarray], Sequence[int] | None]:
    """Return a function that reads an image as a config does, and the bands to show.

    ``bands`` are the numbers of those to show as red, green and blue; without them RGB,
    or the first three. The result is for :func:`mmbam.visualization.attention.look`.
    """
    step = loading_step(cfg)
    if is_rgb(step) and bands is None:
        return read_image, None
    load = LoadImage(**{k: v for k, v in step.items() if k != 'type'})

    def read(file: Path) -> np.ndarray:
        results = load(dict(img_path=str(file)))
        assert results is not None  # max_errors=0 raises
        return results['img']

    return read, bands or default_bands(cfg)


def default_bands(cfg: Config) -> Sequence[int]:
    """The bands to show as red, green and blue of what a config loads."""
    channels = loading_step(cfg).get('channels', RGB)
    if channels == RGB:
        return BGR
    return tuple(min(band, channels - 1) for band in range(3))
