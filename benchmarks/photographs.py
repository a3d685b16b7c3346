"""Photographs that benchmarks of loading make their files from."""

from __future__ import annotations

import numpy as np
from skimage import data


def photographs() -> tuple[np.ndarray, ...]:
    """Return scikit-image's photographs, in RGB."""
    return (
        data.astronaut(),
        data.coffee(),
        data.rocket(),
        data.chelsea(),
        data.stereo_motorcycle()[0],
    )
