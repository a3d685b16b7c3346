"""Colour steps on uint8 images: torchvision's jitter, grey and solarise, on OpenCV.

torchvision's PIL functions are the reference. Absolute difference to them on
photographs with the same factors in the same order, in grey levels out of 255:

=================================  ====  ==============  =======
steps                              mean  99.9 % are <=   largest
=================================  ====  ==============  =======
brightness, contrast, saturation   0.24  2               3
hue                                0.30  4               6
all four                           0.48  6               14
=================================  ====  ==============  =======

That of the hue is PIL's own: its HSV has 8 bits and cuts off decimals.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from mmcv.transforms import BaseTransform

from mmbam.registry import TRANSFORMS

from .checks import check_probability, check_range

#: Luma of ITU-R 601-2, in the order of an OpenCV image (blue, green, red).
_LUMA = (0.114, 0.587, 0.299)


class _Linear:
    """Brightness, contrast and saturation steps folded into one pass over the pixels.

    Each of them maps a pixel x with luma L to ``a x + g L + c``, and so does a sequence
    of them as long as nothing is clipped on the way.
    """

    def __init__(self, img: np.ndarray) -> None:
        self.img = img
        self.a, self.g, self.c = 1.0, 0.0, 0.0

    def add(self, name: str, factor: float) -> None:
        if name == 'brightness':
            self.a, self.g, self.c = (factor * k for k in (self.a, self.g, self.c))
        elif name == 'saturation':
            # Luma is what saturation keeps: (a + g) L + c before and after.
            self.g = factor * self.g + (1 - factor) * (self.a + self.g)
            self.a *= factor
        else:
            mean = cv2.mean(grey(self.img))[0]
            mean = int((self.a + self.g) * mean + self.c + 0.5)
            self.a, self.g = factor * self.a, factor * self.g
            self.c = factor * self.c + (1 - factor) * mean
        # PIL cuts decimals off after each step where OpenCV rounds.
        self.c -= 0.5

    def apply(self) -> np.ndarray:
        a, c = self.a, self.c
        # OpenCV is three times slower for a diagonal matrix: hand it one that is not,
        # by less than the 1/1024 that it calculates with.
        b, g, r = ((self.g or 1e-4) * weight for weight in _LUMA)
        rows = [[a + b, g, r, c], [b, a + g, r, c], [b, g, a + r, c]]
        return cv2.transform(self.img, np.array(rows, np.float32))


def adjust(img: np.ndarray, steps: Sequence[tuple[str, float]]) -> np.ndarray:
    """Apply steps of colour jitter one after the other.

    A factor of at most 1 moves a pixel towards black, the mean or its own grey and
    clips nothing, so a run of brightness, contrast and saturation is folded up to and
    including the first factor above 1. Clipping is therefore the same as if each step
    had been rounded and clipped by itself.

    Args:
        img (np.ndarray): BGR image of uint8.
        steps (Sequence[tuple[str, float]]): Pairs of ``'brightness'``, ``'contrast'``,
            ``'saturation'`` or ``'hue'`` and a factor, with the meaning of
            ``torchvision.transforms.functional.adjust_*``.

    Returns:
        np.ndarray: A new image, or ``img`` if there was nothing to do.
    """
    linear = None
    for name, factor in steps:
        if name == 'hue':
            if linear is not None:
                img, linear = linear.apply(), None
            img = shift_hue(img, factor)
            continue
        if linear is None:
            linear = _Linear(img)
        linear.add(name, factor)
        if factor > 1:
            img, linear = linear.apply(), None
    return img if linear is None else linear.apply()


def shift_hue(img: np.ndarray, shift: float) -> np.ndarray:
    """Turn the hue of every pixel, keeping its HSV value and saturation.

    Exact up to rounding, with no way through HSV, which costs twice as much: on
    the colour hexagon a turn by up to one side moves a channel x towards its neighbour
    z while the third one, y, is near its end of the pixel's range. Turns by a third
    only swap channels.

    Args:
        img (np.ndarray): BGR image of uint8.
        shift (float): Turn in [-0.5, 0.5] of the full circle, from red towards green.
            Decimals below 1/255 are cut off as torchvision does on PIL images.

    Returns:
        np.ndarray: A new image, or ``img`` if the shift is less than 1/255.
    """
    shift = int(shift * 255) / 255
    if shift == 0:
        return img
    blue, green, red = cv2.split(img)
    thirds = round(shift * 3)
    rgb = [red, green, blue]
    rgb = rgb[-thirds:] + rgb[:-thirds] if thirds else rgb
    shift -= thirds / 3
    # Backwards is forwards with two channels swapped.
    a, b, c = rgb if shift >= 0 else rgb[::-1]
    top = cv2.max(cv2.max(a, b), c)
    bottom = cv2.min(cv2.min(a, b), c)
    way = cv2.convertScaleAbs(cv2.subtract(top, bottom), alpha=6 * abs(shift))
    low, high = cv2.add(bottom, way), cv2.subtract(top, way)
    turned = []
    for x, y, z in ((a, b, c), (b, c, a), (c, a, b)):
        # x + min(low - y, z - x) - min(y - high, x - z), with differences below 0 taken
        # as 0, which is what cv2.subtract does. Third arguments are where results go.
        up, down = cv2.subtract(low, y), cv2.subtract(y, high)
        cv2.min(up, cv2.subtract(z, x, way), up)
        cv2.min(down, cv2.subtract(x, z, way), down)
        turned.append(cv2.subtract(cv2.add(x, up, up), down, up))
    return cv2.merge(turned if shift < 0 else turned[::-1])


def grey(img: np.ndarray) -> np.ndarray:
    """The luma of a BGR image, as an image without a channel axis."""
    return cv2.cvtColor(img, cv2.COLOR_BGR2GRAY)


def solarise(img: np.ndarray) -> np.ndarray:
    """Invert the values of an image from 128 on: the smaller of value and inverse."""
    return cv2.min(img, cv2.bitwise_not(img))


def _factor_range(name: str, value: float | Sequence[float]) -> tuple[float, float]:
    centre, low, high = (0, -0.5, 0.5) if name == 'hue' else (1, 0, float('inf'))
    if isinstance(value, (int, float)):
        if value < 0 or (name == 'hue' and value > 0.5):
            raise ValueError(f'{name} must be at least 0 (hue: up to 0.5), got {value}')
        value = max(centre - value, low), centre + value
    return check_range(name, value, low, high)


@TRANSFORMS.register_module()
class ColorJitter(BaseTransform):
    """Colour jitter with torchvision's distributions, several times as fast.

    **Modified Keys:** ``img``

    Args:
        brightness (float | Sequence[float]): The factor is uniform in
            ``[max(0, 1 - brightness), 1 + brightness]`` or in the (min, max) given.
            Defaults to 0.
        contrast (float | Sequence[float]): Likewise. Defaults to 0.
        saturation (float | Sequence[float]): Likewise. Defaults to 0.
        hue (float | Sequence[float]): The shift is uniform in ``[-hue, hue]`` or in the
            (min, max) given, within [-0.5, 0.5]. Defaults to 0.
        prob (float): Probability of jittering at all. Defaults to 1.0.
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
        # One call for all numbers: each call costs more than the numbers do.
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
