"""ContrastiveCrop as a drop-in for mmpretrain's RandomResizedCrop."""

from __future__ import annotations

from collections.abc import Sequence

import mmcv
import numpy as np
from mmcv.transforms.utils import cache_randomness
from mmpretrain.datasets.transforms import RandomResizedCrop

from mmbam.registry import TRANSFORMS
from mmbam.utils.errors import InputError

from .window import Box, check_alpha, check_box, sample_window


def box_of(results: dict, fixed: Box | None, table) -> Box | None:
    """The box of a sample: the fixed one, the table's row, or None.

    Args:
        results (dict): Of the pipeline; ``sample_idx`` tells the table's row.
        fixed (tuple | None): A box that holds for every sample.
        table (BoxTable | None): Boxes by sample.

    Returns:
        tuple | None: (h0, w0, h1, w1), or None where the sample has no box.
    """
    if table is None:
        return fixed
    if 'sample_idx' not in results:
        raise InputError(
            "A crop with a table of boxes needs results['sample_idx'] to find the "
            "sample's box; mmengine's BaseDataset sets it, this data set does not"
        )
    return table[results['sample_idx']]


def check_no_fixed_box(fixed: Box | None) -> None:
    """Refuse a table of boxes where the config has set one box for all samples."""
    if fixed is not None:
        raise InputError(
            f'This crop has the fixed box {fixed} and takes no table of boxes: '
            'remove its `box` argument, or do not localise'
        )


@TRANSFORMS.register_module()
class ContrastiveCrop(RandomResizedCrop):
    """RandomResizedCrop whose centre is drawn across the sample's box.

    From Peng et al., "Crafting Better Contrastive Views for Siamese Representation
    Learning", CVPR 2022. For a sample without a box it is RandomResizedCrop: the same
    numpy seed gives the same pixels.

    **Required Keys:**

    - img
    - sample_idx (with a table of boxes)

    **Modified Keys:**

    - img
    - img_shape

    Args:
        scale (Sequence | int): Output size, (h, w) or one number for a square.
        *args: The other arguments of :class:`mmpretrain.RandomResizedCrop`, in its
            order.
        alpha (float): Of the Beta distribution of centres. Defaults to 0.6.
        box (str | Sequence[float], optional): One box (h0, w0, h1, w1) in [0, 1] for
            all samples; ``'center'`` is the central half, which makes this SimCCrop.
            Defaults to None: boxes come from :meth:`set_boxes`, and without a table
            crops are random.
        **kwargs: ``crop_ratio_range``, ``aspect_ratio_range``, ``max_attempts``,
            ``interpolation`` and ``backend``, see
            :class:`mmpretrain.RandomResizedCrop`.
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
        self.alpha = check_alpha(alpha)
        self.box = check_box(box)
        self.boxes = None

    def set_boxes(self, table) -> None:
        """Take a table of boxes.

        Args:
            table (BoxTable): ``table[sample_idx]`` is a box or None.
        """
        check_no_fixed_box(self.box)
        self.boxes = table

    @cache_randomness
    def rand_box_crop_params(self, img: np.ndarray, box: Box) -> tuple:
        """Draw (top, left, height, width) of a crop around a box."""
        return sample_window(
            *img.shape[:2],
            self.crop_ratio_range,
            self.aspect_ratio_range,
            box,
            self.alpha,
            self.max_attempts,
        )

    def transform(self, results: dict) -> dict:
        """Crop and resize ``results['img']``."""
        box = box_of(results, self.box, self.boxes)
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
