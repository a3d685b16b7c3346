"""Views of images with any number of bands, or more than 8 bits, in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from .blur import gaussian_blur
from .resize import resize_bicubic
from .view import View, ViewParams
from .window import Box

#: Weights of the luma (ITU-R 601-2) of blue, green and red.
_LUMA = np.array((0.114, 0.587, 0.299), np.float32)


class BandView(View):
    """A kind of views of images whose bands are no colors.

    Brightness and contrast are drawn for each band. There is no hue, saturation or
    gray.
    """

    bands: int

    def draw(
        self, height: int, width: int, box: Box | None = None, alpha: float = 0.6
    ) -> ViewParams:
        """Make the random draws of one view, see :meth:`View.draw`."""
        params = super().draw(height, width, box, alpha)
        jitter = []
        for name, _ in params.jitter:
            low, high = self._jitter.ranges[name]
            factors = low + (high - low) * np.random.random_sample(self.bands)
            jitter.append((name, factors.astype(np.float32)))
        dropped: tuple[int, ...] = ()
        if self.band_dropout:
            draws = np.random.random_sample(self.bands)
            draws[draws.argmax()] = 1.0  # one band always stays
            dropped = tuple(np.flatnonzero(draws < self.band_dropout).tolist())
        return params._replace(jitter=jitter, dropped=dropped)


def band_view(view: Mapping[str, Any], bands: int) -> BandView:
    """Make a kind of views of images with ``bands`` bands, which are no colors.

    ``view`` has arguments of :class:`View`, without ``gray``. The strength of the
    jitter is (brightness, contrast).
    """
    strength = tuple(view.get('strength', (0.4, 0.4)))
    if view.get('gray') or len(strength) < 2 or any(strength[2:]):
        raise ValueError(
            'MultiCrop: gray, saturation and hue need three bands that are declared as '
            f"channels='rgb', but with channels={bands} a view has "
            f'gray={view.get("gray", 0)} and strength={strength}: leave out gray, and '
            'give strength=(brightness, contrast)'
        )
    made = BandView(**{**view, 'gray': 0.0, 'strength': (*strength[:2], 0.0, 0.0)})
    made.bands = bands
    return made


def render_bands(
    img: np.ndarray, view: ViewParams, value_range: Sequence[float] | None = None
) -> np.ndarray:
    """Make a view from an image of any number of bands.

    Args:
        img (np.ndarray): Image of uint8, uint16, int16 or float32, of shape (height,
            width, bands).
        view (ViewParams): Draws of the view.
        value_range (Sequence[float], optional): Value of black and highest value.
            Defaults to None: that of the type for uint8 and uint16, else black is 0 and
            nothing is clipped.

    Returns:
        np.ndarray: Array of shape (size, size, bands), of uint8 if the image is, else
        of float32. Its memory is laid out band by band.
    """
    span = value_range
    if span is None and img.dtype.kind == 'u':
        span = (0, np.iinfo(img.dtype).max)
    top, left, h, w = view.window
    out = img[top : top + h, left : left + w].astype(np.float32)
    out = resize_bicubic(out, view.size, view.size)
    black = 0.0 if span is None else float(span[0])
    if black:
        out -= black
    top_value = None if span is None else float(span[1]) - black
    out = _clip(out, top_value)  # bicubic weights overshoot
    for name, factor in view.jitter:
        out = _clip(_STEPS[name](out, factor), top_value)
    if view.gray:
        out = (out @ _LUMA)[..., None].repeat(3, axis=2)
    if view.sigma is not None:
        out = gaussian_blur(out, view.sigma).reshape(out.shape)
    if view.solarize:
        if top_value is None:
            raise ValueError(
                'solarize inverts what is above the middle of the range of values, '
                f'which nothing tells for {img.dtype}: set value_range of MultiCrop'
            )
        out = np.minimum(out, top_value - out)
    if view.dropped:
        out[..., list(view.dropped)] = 0
    if black:
        out += black
    if img.dtype == np.uint8:
        out = np.rint(out).astype(np.uint8)
    if view.flip:
        out = out[:, ::-1]
    if view.vertical_flip:
        out = out[::-1]
    return np.ascontiguousarray(out.transpose(2, 0, 1)).transpose(1, 2, 0)


def _clip(x: np.ndarray, high: float | None) -> np.ndarray:
    return x if high is None else np.clip(x, 0, high, out=x)


def _brightness(x: np.ndarray, factor: Any) -> np.ndarray:
    return x * np.float32(factor)


def _contrast(x: np.ndarray, factor: Any) -> np.ndarray:
    """Towards the mean of each band, or with one factor for all of the luma."""
    one = np.ndim(factor) == 0
    mean = (x @ _LUMA).mean() if one else x.mean(axis=(0, 1))
    return mean + (x - mean) * np.float32(factor)


def _saturation(x: np.ndarray, factor: float) -> np.ndarray:
    luma = (x @ _LUMA)[..., None]
    return luma + (x - luma) * np.float32(factor)


def _hue(x: np.ndarray, shift: float) -> np.ndarray:
    hsv = cv2.cvtColor(x, cv2.COLOR_BGR2HSV)
    hsv[..., 0] = (hsv[..., 0] + 360 * shift) % 360
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2BGR)


_STEPS = {
    'brightness': _brightness,
    'contrast': _contrast,
    'saturation': _saturation,
    'hue': _hue,
}
