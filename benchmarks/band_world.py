"""A world of images with 5 bands of 16 bits, whose classes only the low bits show."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import tifffile

BANDS = 5
#: Every value lies between these, so views are made with this ``value_range``.
VALUE_RANGE = (0x4000, 0x4200)
#: The bands that carry a texture, for each class.
CLASSES = tuple(itertools.combinations(range(BANDS), 2))[:8]


def draw_band_image(label: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw an image of uint16 (size, size, 5) of a class.

    The upper byte of a value is 0x40, and 0x41 at random pixels whatever the class. In
    the lower byte, two bands are brighter and have waves of any direction, and the
    others have noise; which two is the class.
    """
    y, x = np.mgrid[:size, :size]
    bands = []
    for band in range(BANDS):
        upper = 0x40 + (rng.random((size, size)) < 0.05)
        lower = rng.normal(90, 12) + 15 * rng.normal(size=(size, size))
        if band in CLASSES[label]:
            angle, phase = rng.uniform(0, 2 * np.pi, 2)
            wave = np.cos((x * np.cos(angle) + y * np.sin(angle)) * 1.2 + phase)
            lower += 60 + 40 * wave
        value = 256 * upper + np.rint(lower.clip(0, 255)).astype(int)
        bands.append(value.astype(np.uint16))
    return np.stack(bands, axis=2)


def make_band_world(root: str | Path, train: int = 800, test: int = 200) -> Path:
    """Write class folders of TIFF files, ``root/train`` and ``root/val``."""
    root = Path(root)
    for stream, (split, number) in enumerate((('train', train), ('val', test))):
        rng = np.random.default_rng((0, stream))
        for i in range(number):
            label = i % len(CLASSES)
            folder = root / split / ('bands_' + '_'.join(map(str, CLASSES[label])))
            folder.mkdir(parents=True, exist_ok=True)
            image = draw_band_image(label, 32, rng)
            tifffile.imwrite(
                folder / f'{i:05}.tif',
                image,
                photometric='minisblack',
                planarconfig='contig',
            )
    return root
