"""torchvision's color jitter, gray and solarize for uint8 images, on OpenCV.

Needed because mmpretrain's ColorJitter takes 12 times as long with OpenCV and 25 times
as long with PIL. Absolute difference from torchvision's PIL functions on photographs,
with the same factors in the same order, in gray levels out of 255:

=================================  ====  ==============  =======
steps                              mean  99.9 % are <=   largest
=================================  ====  ==============  =======
brightness, contrast, saturation   0.02  1               3
hue                                0.30  4               6
all four                           0.31  5               8
=================================  ====  ==============  =======

The difference in hue is due to PIL, whose HSV has 8 bits and cuts off decimals.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from mmcv.transforms import BaseTransform

from mmbam.registry import TRANSFORMS

from .checks import check_probability, check_range


def adjust(img: np.ndarray, steps: Sequence[tuple[str, float]]) -> np.ndarray:
    """Apply steps of color jitter one after the other.

    Args:
        img (np.ndarray): BGR image of uint8.
        steps (Sequence[tuple[str, float]]): Pairs of ``'brightness'``, ``'contrast'``,
            ``'saturation'`` or ``'hue'`` and a factor, with the meaning of
            ``torchvision.transforms.functional.adjust_*``.

    Returns:
        np.ndarray: A new image, or ``img`` itself if nothing changes.
    """
    for name, factor in steps:
        img = _STEPS[name](img, factor)
    return img


# PIL cuts off decimals, where OpenCV rounds: hence the -0.5 below.


def _brightness(img: np.ndarray, factor: float) -> np.ndarray:
    return cv2.addWeighted(img, factor, img, 0, -0.5)


def _contrast(img: np.ndarray, factor: float) -> np.ndarray:
    mean = int(cv2.mean(gray(img))[0] + 0.5)
    return cv2.addWeighted(img, factor, img, 0, (1 - factor) * mean - 0.5)


def _saturation(img: np.ndarray, factor: float) -> np.ndarray:
    luma = cv2.cvtColor(gray(img), cv2.COLOR_GRAY2BGR)
    return cv2.addWeighted(img, factor, luma, 1 - factor, -0.5)


def shift_hue(img: np.ndarray, shift: float) -> np.ndarray:
    """Turn the hue of every pixel, keeping its HSV value and saturation.

    Exact up to rounding, and twice as fast as a conversion to HSV and back. A turn by a
    third of the circle only swaps channels. What remains is at most a sixth: on the
    hexagon of hues, it moves a channel x towards its neighbor z while the third
    channel, y, is near the top or the bottom of the pixel's range.

    Args:
        img (np.ndarray): BGR image of uint8.
        shift (float): Turn in [-0.5, 0.5] of the full circle, from red towards green.
            Cut off to multiples of 1/255, as torchvision does for PIL images.

    Returns:
        np.ndarray: A new image, or ``img`` itself if the shift is less than 1/255.
    """
    shift = int(shift * 255) / 255
    if shift == 0:
        return img
    blue, green, red = cv2.split(img)
    thirds = round(shift * 3)
    rgb = [red, green, blue]
    rgb = rgb[-thirds:] + rgb[:-thirds] if thirds else rgb
    shift -= thirds / 3
    # Turning backwards is turning forwards with two channels swapped.
    a, b, c = rgb if shift >= 0 else rgb[::-1]
    top = cv2.max(cv2.max(a, b), c)
    bottom = cv2.min(cv2.min(a, b), c)
    way = cv2.convertScaleAbs(cv2.subtract(top, bottom), alpha=6 * abs(shift))
    low, high = cv2.add(bottom, way), cv2.subtract(top, way)
    turned = []
    for x, y, z in ((a, b, c), (b, c, a), (c, a, b)):
        # x + min(low - y, z - x) - min(y - high, x - z); cv2.subtract turns negative
        # differences into 0. Third arguments are output buffers.
        up, down = cv2.subtract(low, y), cv2.subtract(y, high)
        cv2.min(up, cv2.subtract(z, x, way), up)
        cv2.min(down, cv2.subtract(x, z, way), down)
        turned.append(cv2.subtract(cv2.add(x, up, up), down, up))
    return cv2.merge(turned if shift < 0 else turned[::-1])


_STEPS = dict(
    brightness=_brightness,
    contrast=_contrast,
    saturation=_saturation,
    hue=shift_hue,
)


def gray(img: np.ndarray) -> np.ndarray:
    """Return the luma of a BGR image, without a channel axis."""
    return cv2.cvtColor(img, cv2.COLOR_BGR2GRAY)


def solarize(img: np.ndarray) -> np.ndarray:
    """Invert all values from 128 on, which is the smaller of value and inverse."""
    return cv2.min(img, cv2.bitwise_not(img))


def _factor_range(name: str, value: float | Sequence[float]) -> tuple[float, float]:
    center, low, high = (0, -0.5, 0.5) if name == 'hue' else (1, 0, float('inf'))
    if isinstance(value, (int, float)):
        if value < 0 or (name == 'hue' and value > 0.5):
            raise ValueError(f'{name} must be at least 0 (hue: up to 0.5), got {value}')
        value = max(center - value, low), center + value
    return check_range(name, value, low, high)


@TRANSFORMS.register_module()
class ColorJitter(BaseTransform):
    """Color jitter with torchvision's distributions.

    **Modified Keys:** ``img``

    Args:
        brightness (float | Sequence[float]): Range (min, max) of the factor, drawn
            uniformly; a number x stands for ``(max(0, 1 - x), 1 + x)``. Defaults to 0.
        contrast (float | Sequence[float]): Range, as for brightness. Defaults to 0.
        saturation (float | Sequence[float]): Range, as for brightness. Defaults to 0.
        hue (float | Sequence[float]): Range (min, max) of the shift within [-0.5, 0.5];
            a number x stands for (-x, x). Defaults to 0.
        prob (float): Probability of the jitter. Defaults to 1.0.
    """

    def __init__(
        self,
        brightness: float | Sequence[float] = 0.0,
        contrast: float | Sequence[float] = 0.0,
        saturation: float | Sequence[float] = 0.0,
        hue: float | Sequence[float] = 0.0,
        prob: float = 1.0,
    ) -> None:
        self.ranges = {
            name: _factor_range(name, value)
            for name, value in (
                ('brightness', brightness),
                ('contrast', contrast),
                ('saturation', saturation),
                ('hue', hue),
            )
            if value != 0
        }
        self.prob = check_probability('prob', prob)

    def draw(self) -> list[tuple[str, float]]:
        """Draw the steps: their factors and their order."""
        if np.random.random_sample() >= self.prob:
            return []
        count = len(self.ranges)
        # One call for all numbers, because calls take longer than drawing.
        draws = np.random.random_sample(2 * count).tolist()
        order = sorted(range(count), key=draws[count:].__getitem__)
        steps = [
            (name, low + (high - low) * draw)
            for (name, (low, high)), draw in zip(self.ranges.items(), draws)
        ]
        return [steps[i] for i in order]

    def transform(self, results: dict) -> dict:
        """Jitter ``results['img']``."""
        results['img'] = adjust(results['img'], self.draw())
        return results

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self.ranges}, prob={self.prob})'
