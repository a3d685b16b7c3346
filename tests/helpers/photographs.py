"""Photographs for tests, as RGB arrays."""

import cv2
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


def write_photographs(folder, number):
    """JPEGs of 64 x 64, cut from photographs, in sub-folders by photograph."""
    rng = np.random.default_rng(0)
    for i in range(number):
        photo = photographs()[i % 4]
        top, left = (rng.integers(0, edge - 64) for edge in photo.shape[:2])
        path = folder / f'photo{i % 4}' / f'{i:04}.jpg'
        path.parent.mkdir(parents=True, exist_ok=True)
        patch = photo[top : top + 64, left : left + 64]
        cv2.imwrite(str(path), to_bgr(patch))
