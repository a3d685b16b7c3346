"""Views of an image: their random draws, and making them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np

from .blur import GaussianBlur, gaussian_blur
from .checks import check_probability, check_range
from .color import ColorJitter, adjust, gray, solarize
from .resize import resize_bicubic
from .window import Box, sample_window


class ViewParams(NamedTuple):
    """The random draws of one view."""

    size: int
    window: tuple[int, int, int, int]
    flip: bool
    jitter: list[tuple[str, Any]]
    gray: bool
    sigma: float | None
    solarize: bool
    vertical_flip: bool = False
    dropped: tuple[int, ...] = ()


@dataclass
class View:
    """A kind of views: crop, flip, jitter, gray, blur, solarize.

    Args:
        size (int): Height and width of the view in pixels.
        area (Sequence[float]): Smallest and largest share of the image's area.
        num (int): Number of views of this kind. Defaults to 1.
        aspect (Sequence[float]): Smallest and largest width / height of the crop.
            Defaults to (3 / 4, 4 / 3).
        flip (float): Probability of a horizontal flip. Defaults to 0.5.
        jitter (float): Probability of color jitter. Defaults to 0.8.
        strength (Sequence[float]): Strength of the jitter of brightness, contrast,
            saturation and hue. Defaults to (0.4, 0.4, 0.4, 0.1).
        gray (float): Probability of a gray view. Defaults to 0.2.
        blur (float): Probability of Gaussian blur. Defaults to 0.5.
        sigma (Sequence[float]): Smallest and largest standard deviation of the blur in
            pixels. Defaults to (0.1, 2.0).
        solarize (float): Probability of inverting all values from 128 on. Defaults
            to 0.
        vertical_flip (float): Probability of a vertical flip, for images without an
            up and down, such as aerial or microscope images. Defaults to 0.
        band_dropout (float): Probability of each band to become black, with
            ``channels=N`` of :class:`MultiCrop`. One band always stays. Defaults to 0.
    """

    size: int
    area: Sequence[float]
    num: int = 1
    aspect: Sequence[float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: float = 0.8
    strength: Sequence[float] = (0.4, 0.4, 0.4, 0.1)
    gray: float = 0.2
    blur: float = 0.5
    sigma: Sequence[float] = (0.1, 2.0)
    solarize: float = 0.0
    vertical_flip: float = 0.0
    band_dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ('size', 'num'):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(
                    f'{name} of a view must be an integer of at least 1, '
                    f'got {getattr(self, name)!r}'
                )
        self.area = check_range('area of a view', self.area, 0, 1)
        self.aspect = check_range('aspect of a view', self.aspect, 1e-6, float('inf'))
        for name in ('flip', 'jitter', 'gray', 'blur', 'solarize', 'vertical_flip',
                     'band_dropout'):  # fmt: skip
            check_probability(f'{name} of a view', getattr(self, name))
        if len(self.strength) != 4:
            raise ValueError(
                'strength of a view is (brightness, contrast, saturation, hue), '
                f'got {self.strength}'
            )
        brightness, contrast, saturation, hue = self.strength
        self._jitter = ColorJitter(brightness, contrast, saturation, hue, self.jitter)
        self._blur = GaussianBlur(self.sigma, prob=self.blur)

    def draw(
        self, height: int, width: int, box: Box | None = None, alpha: float = 0.6
    ) -> ViewParams:
        """Make the random draws of one view, see :func:`sample_window`."""
        flip, gray, solarize, vertical_flip = np.random.random_sample(4).tolist()
        return ViewParams(
            self.size,
            sample_window(height, width, self.area, self.aspect, box, alpha),
            flip < self.flip,
            self._jitter.draw(),
            gray < self.gray,
            self._blur.draw(),
            solarize < self.solarize,
            vertical_flip < self.vertical_flip,
        )


def render(img: np.ndarray, view: ViewParams) -> np.ndarray:
    """Make a view from a BGR image of uint8.

    It is laid out in memory channel by channel, which saves ``PackInputs`` a copy.
    """
    top, left, h, w = view.window
    out = resize_bicubic(img[top : top + h, left : left + w], view.size, view.size)
    out = adjust(out, view.jitter)
    if view.gray:
        out = gray(out)  # without a channel axis, so the steps below cost a third
    if view.sigma is not None:
        out = gaussian_blur(out, view.sigma)
    if view.solarize:
        out = solarize(out)
    if view.flip or view.vertical_flip:
        both = view.flip and view.vertical_flip
        out = cv2.flip(out, -1 if both else int(view.flip))
    planes = cv2.split(out) if out.ndim == 3 else [out] * 3
    return cv2.vconcat(planes).reshape(3, *out.shape[:2]).transpose(1, 2, 0)
