"""Photographs for tests, as RGB arrays."""

import numpy as np
from skimage import data


def photographs():
    """Small parts of photographs, bright and dark, saturated and not."""
    return [
        np.ascontiguousarray(image[::2, ::2][:140, :180])
        for image in (data.astronaut(), data.coffee(), data.chelsea(), data.rocket())
    ]


def to_bgr(rgb):
    """The OpenCV order of channels."""
    return np.ascontiguousarray(rgb[..., ::-1])


def difference(bgr, pil):
    """Absolute difference of a BGR image and a PIL image in gray levels."""
    rgb = np.asarray(pil.convert('RGB')).astype(int)
    return np.abs(bgr[..., ::-1].astype(int) - rgb)
