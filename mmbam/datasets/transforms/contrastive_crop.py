"""ContrastiveCrop in place of mmpretrain's RandomResizedCrop."""

from __future__ import annotations

from collections.abc import Sequence

import mmcv
import numpy as np
from mmcv.transforms.utils import cache_randomness
from mmpretrain.datasets.transforms import RandomResizedCrop

from mmbam.registry import TRANSFORMS

from .window import Box, BoxedCrop, sample_window


@TRANSFORMS.register_module()
class ContrastiveCrop(BoxedCrop, RandomResizedCrop):
    """RandomResizedCrop whose center is drawn across the sample's box.

    From Peng et al., "Crafting Better Contrastive Views for Siamese Representation
    Learning", CVPR 2022. A sample without a box gets RandomResizedCrop's crop, with the
    same pixels for the same numpy seed.

    **Required Keys:**

    - img
    - sample_idx (with a table of boxes)

    **Modified Keys:**

    - img
    - img_shape

    Args:
        scale (Sequence | int): Output size, (h, w) or one number for a square.
        *args: Further arguments of :class:`mmpretrain.RandomResizedCrop`.
        alpha (float): Parameter of the centers' Beta distribution. Defaults to 0.6.
        box (str | Sequence[float], optional): One box (h0, w0, h1, w1) in [0, 1] for
            all samples; ``'center'`` is the central half, which makes this SimCCrop.
            Defaults to None: boxes come from :meth:`set_boxes`, and crops are random
            until then.
        **kwargs: Further arguments of :class:`mmpretrain.RandomResizedCrop`.
    """

    def __init__(
        self,
        scale: Sequence[int] | int,
        *args,
        alpha: float = 0.6,
        box: str | Sequence[float] | None = None,
        **kwargs,
    ) -> None:
        super().__init__(scale, *args, **kwargs)
        self.init_boxes(alpha, box)

    @cache_randomness
    def rand_box_crop_params(self, img: np.ndarray, box: Box) -> tuple:
        """Draw (top, left, height, width) of a crop around a box."""
        return sample_window(
            img.shape[0],
            img.shape[1],
            self.crop_ratio_range,
            self.aspect_ratio_range,
            box,
            self.alpha,
            self.max_attempts,
        )

    def transform(self, results: dict) -> dict:
        """Crop and resize ``results['img']``."""
        box = self.box_of(results)
        if box is None:
            return super().transform(results)
        img = results['img']
        top, left, h, w = self.rand_box_crop_params(img, box)
        results['img'] = mmcv.imresize(
            img[top : top + h, left : left + w],
            tuple(self.scale[::-1]),
            interpolation=self.interpolation,
            backend=self.backend,
        )
        results['img_shape'] = results['img'].shape
        return results

    def __repr__(self) -> str:
        return f'{super().__repr__()[:-1]}, alpha={self.alpha}, box={self.box})'
