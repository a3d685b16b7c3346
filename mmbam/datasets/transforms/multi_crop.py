"""All views of an image in one transform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from mmcv.transforms import BaseTransform

from mmbam.registry import TRANSFORMS

from .boxed import BoxedCrop
from .view import View, render

#: Keys of earlier versions and the present ones.
RENAMED = {'solarise': 'solarize', 'grey': 'gray'}


@TRANSFORMS.register_module()
class MultiCrop(BoxedCrop, BaseTransform):
    """Make the global and local views of an image, each with its own random draws.

    Replaces mmpretrain's ``MultiView`` around crop, flip, jitter, gray, blur and
    solarize. The distributions are those of the torchvision transforms in DINO's PIL
    pipeline. With the same draws, a view differs from torchvision's by less than one
    gray level on average.

    **Required Keys:**

    - img: BGR image of uint8
    - sample_idx (with a table of boxes)

    **Modified Keys:**

    - img: list of BGR images of uint8, in the order of ``views``

    Args:
        views (Sequence[dict]): Kinds of views, the global ones first, each with the
            arguments of :class:`View`.
        alpha (float): Parameter of the Beta distribution of crop centers, see
            :class:`ContrastiveCrop`. Defaults to 0.6.
        box (str | Sequence[float], optional): One box (h0, w0, h1, w1) in [0, 1] for
            all samples, or ``'center'`` (SimCCrop). Defaults to None: boxes come from
            :meth:`set_boxes`, and crops are random until then.

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
    ) -> None:
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
        self.views = [View(**view) for view in views]
        self.init_boxes(alpha, box)

    def transform(self, results: dict) -> dict:
        """Replace ``results['img']`` by the list of its views."""
        img = results['img']
        if img.dtype != np.uint8 or img.ndim != 3 or img.shape[2] != 3:
            raise TypeError(
                'MultiCrop takes images of uint8 with 3 channels, got '
                f'{img.dtype} of shape {img.shape}'
            )
        height, width = img.shape[:2]
        box = self.box_of(results)
        views = [
            view.draw(height, width, box, self.alpha)
            for view in self.views
            for _ in range(view.num)
        ]
        results['img'] = render(img, views)
        return results

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(views={self.views}, alpha={self.alpha}, '
            f'box={self.box})'
        )
