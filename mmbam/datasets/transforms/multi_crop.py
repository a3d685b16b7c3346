"""All views of an image in one transform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from mmcv.transforms import BaseTransform

from mmbam.datasets.bands import RGB, TYPES
from mmbam.registry import TRANSFORMS

from .band_views import band_view, render_bands
from .checks import check_channels
from .view import View, render
from .window import BoxedCrop

#: Keys of earlier versions and the present ones.
RENAMED = {'solarise': 'solarize', 'grey': 'gray'}


@TRANSFORMS.register_module()
class MultiCrop(BoxedCrop, BaseTransform):
    """Make the global and local views of an image, each with its own random draws.

    Replaces mmpretrain's ``MultiView`` around crop, flip, jitter, gray, blur and
    solarize. The distributions are those of the torchvision transforms in DINO's PIL
    pipeline. With the same draws, a view differs from torchvision's by less than one
    gray level on average.

    Images may have any number of bands, and values of uint8, uint16, int16 or float32.
    Without the three bands of RGB, brightness and contrast are drawn for each band, and
    there is no hue, saturation or gray.

    **Required Keys:**

    - img: BGR image, or one with ``channels`` bands
    - sample_idx (with a table of boxes)
    - value_range (optional): see the argument

    **Modified Keys:**

    - img: list of such images in the order of ``views``, of uint8 if the image is, else
      of float32

    Args:
        views (Sequence[dict]): Kinds of views, the global ones first, each with the
            arguments of :class:`View`.
        alpha (float): Parameter of the Beta distribution of crop centers, see
            :class:`ContrastiveCrop`. Defaults to 0.6.
        box (str | Sequence[float], optional): One box (h0, w0, h1, w1) in [0, 1] for
            all samples, or ``'center'`` (SimCCrop). Defaults to None: boxes come from
            :meth:`set_boxes`, and crops are random until then.
        channels (int | str): Number of bands, or ``'rgb'`` for three bands that are
            blue, green and red. Defaults to ``'rgb'``.
        value_range (Sequence[float], optional): Value of black, and highest value.
            Results are clipped to it, and solarize inverts what is above its middle.
            Defaults to None: that of the image's bits for uint8 and uint16. For others
            black is 0, nothing is clipped, and solarize is refused.

    Examples:
        >>> dict(
        ...     type='mmbam.MultiCrop',
        ...     views=[
        ...         dict(num=2, size=224, area=(0.25, 1)),
        ...         dict(num=6, size=96, area=(0.05, 0.25)),
        ...     ],
        ... )
    """

    def __init__(
        self,
        views: Sequence[dict],
        alpha: float = 0.6,
        box: str | Sequence[float] | None = None,
        channels: int | str = RGB,
        value_range: Sequence[float] | None = None,
    ) -> None:
        self.channels = check_channels(channels)
        if value_range is not None:
            low, high = value_range
            if not low < high:
                raise ValueError(
                    'value_range of MultiCrop must be (low, high) with low < high, got '
                    f'{value_range}'
                )
        self.value_range = value_range
        if not views:
            raise ValueError('MultiCrop needs at least one kind of view, got none')
        allowed = [field.name for field in fields(View)]
        for view in views:
            for old, new in RENAMED.items():
                if old in view:
                    raise ValueError(f'MultiCrop: {old!r} is now {new!r}.')
            unknown = sorted(set(view) - set(allowed))
            missing = sorted({'size', 'area'} - set(view))
            if unknown or missing:
                raise ValueError(
                    f'A view of MultiCrop has unknown arguments {unknown} and lacks '
                    f'{missing}; allowed are {allowed}'
                )
        self.views = [
            View(**view) if channels == RGB else band_view(view, int(channels))
            for view in views
        ]
        if channels == RGB and any(view.band_dropout for view in self.views):
            raise ValueError(
                "band_dropout of a view needs channels=N of MultiCrop, not 'rgb'"
            )
        self.init_boxes(alpha, box)

    def transform(self, results: dict) -> dict:
        """Replace ``results['img']`` by the list of its views."""
        img = results['img']
        bands = 3 if self.channels == RGB else self.channels
        if str(img.dtype) not in TYPES or img.ndim != 3 or img.shape[2] != bands:
            raise TypeError(
                f'MultiCrop with channels={self.channels!r} takes images of '
                f'{", ".join(TYPES)} with {bands} channels, got {img.dtype} of shape '
                f'{img.shape}'
            )
        height, width = img.shape[:2]
        box = self.box_of(results)
        views = [
            view.draw(height, width, box, self.alpha)
            for view in self.views
            for _ in range(view.num)
        ]
        if self.channels == RGB and img.dtype == np.uint8:
            results['img'] = [render(img, view) for view in views]
        else:
            value_range = self.value_range or results.get('value_range')
            results['img'] = [render_bands(img, view, value_range) for view in views]
        return results

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(views={self.views}, alpha={self.alpha}, '
            f'box={self.box}, channels={self.channels!r}, '
            f'value_range={self.value_range})'
        )
