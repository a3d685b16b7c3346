"""Where a crop is cut: the geometry of RandomResizedCrop and ContrastiveCrop.

There is one box for all samples, one per sample from a table, or none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mmbam.datasets.boxes import BoxTable
from mmbam.utils.errors import InputError

Box = tuple[float, float, float, float]


def _uniform(low: float, high: float) -> float:
    """Draw the number of ``np.random.uniform``, in a tenth of its time."""
    return low + (high - low) * np.random.random_sample()


def _draw_size(
    height: int,
    width: int,
    area_range: Sequence[float],
    aspect_range: Sequence[float],
    max_attempts: int,
) -> tuple[int, int, bool]:
    """Draw (h, w); the flag is False if no attempt fitted and this is a fall-back."""
    log_aspect = math.log(aspect_range[0]), math.log(aspect_range[1])
    for _ in range(max_attempts):
        area = _uniform(*area_range) * (height * width)
        aspect = math.exp(_uniform(*log_aspect))
        w = int(round(math.sqrt(area * aspect)))
        h = int(round(math.sqrt(area / aspect)))
        if 0 < w <= width and 0 < h <= height:
            return h, w, True
    if width / height < min(aspect_range):
        # At least one pixel, for images that are one pixel high.
        return max(1, int(round(width / min(aspect_range)))), width, False
    if width / height > max(aspect_range):
        return height, max(1, int(round(height * max(aspect_range)))), False
    return height, width, False


def _draw_offset(low: float, high: float, size: int, crop: int, alpha: float) -> int:
    """Draw the crop's first pixel along one axis of a box from ``low`` to ``high``."""
    room = size - crop
    first = min(max(round(low * size - crop / 2), 0), room)
    last = min(max(round(high * size - crop / 2), 0), room)
    return min(first + int((last - first + 1) * np.random.beta(alpha, alpha)), last)


def sample_window(
    height: int,
    width: int,
    area_range: Sequence[float],
    aspect_range: Sequence[float],
    box: Box | None = None,
    alpha: float = 0.6,
    max_attempts: int = 10,
) -> tuple[int, int, int, int]:
    """Draw the window of a crop.

    Without a box, this is RandomResizedCrop's geometry, with mmpretrain's random draws
    in mmpretrain's order. With a box, size and ratio are drawn in the same way and the
    center from Beta(alpha, alpha) across the box (Peng et al., "Crafting Better
    Contrastive Views for Siamese Representation Learning", CVPR 2022). The range of
    centers is clipped, so that crops stay inside the image; clipping each center
    instead would gather crops at the image's border.

    Args:
        height (int): Height of the image.
        width (int): Width of the image.
        area_range (Sequence[float]): Smallest and largest share of the image's area.
        aspect_range (Sequence[float]): Smallest and largest width / height.
        box (tuple, optional): (h0, w0, h1, w1) in [0, 1]. Defaults to None.
        alpha (float): Parameter of the Beta distribution. Below 1, centers are more
            often near the sides of the box than in its middle, so that the views of
            an image differ more. Defaults to 0.6.
        max_attempts (int): Number of draws of a size before the largest crop with an
            allowed ratio is taken, from the image's center or as the box says.
            Defaults to 10.

    Returns:
        tuple[int, int, int, int]: Top, left, height and width.
    """
    h, w, fitted = _draw_size(height, width, area_range, aspect_range, max_attempts)
    if box is not None:
        top = _draw_offset(box[0], box[2], height, h, alpha)
        left = _draw_offset(box[1], box[3], width, w, alpha)
    elif fitted:
        top = np.random.randint(0, height - h + 1)
        left = np.random.randint(0, width - w + 1)
    else:
        top, left = (height - h) // 2, (width - w) // 2
    return top, left, h, w


#: The central half of an image, SimCCrop's box.
CENTER_BOX: Box = (0.25, 0.25, 0.75, 0.75)


class BoxedCrop:
    """Mixin of the crops whose centers are drawn across a box."""

    def init_boxes(self, alpha: float, box: str | Sequence[float] | None) -> None:
        """Check and keep the arguments that both crops share."""
        if not alpha > 0:
            raise InputError(f'alpha must be above 0, got {alpha}')
        self.alpha = float(alpha)
        self.box = check_box(box)
        self.boxes: BoxTable | None = None

    def set_boxes(self, table: BoxTable) -> None:
        """Follow a table of boxes, one for each ``sample_idx``, from now on."""
        if self.box is not None:
            raise InputError(
                f'This crop has the fixed box {self.box} and takes no table of boxes: '
                'remove its `box` argument, or remove mmbam.LocalizeHook'
            )
        self.boxes = table

    def box_of(self, results: dict) -> Box | None:
        """The box of the sample in ``results``, or None for a random crop."""
        if self.boxes is None:
            return self.box
        if 'sample_idx' not in results:
            raise InputError(
                "A crop with a table of boxes needs results['sample_idx'] to find the "
                "sample's box; mmengine's BaseDataset sets it, this data set does not"
            )
        return self.boxes[results['sample_idx']]


def check_box(box: str | Sequence[float] | None) -> Box | None:
    """Turn the ``box`` argument of a crop into (h0, w0, h1, w1) in [0, 1], or None."""
    if box is None:
        return None
    if isinstance(box, str):
        if box != 'center':
            raise InputError(
                f"box must be 'center', (h0, w0, h1, w1) or None, got {box!r}"
            )
        return CENTER_BOX
    if len(box) != 4 or not (0 <= box[0] <= box[2] <= 1 and 0 <= box[1] <= box[3] <= 1):
        raise InputError(
            'box must be (h0, w0, h1, w1) in [0, 1] with h0 <= h1 and w0 <= w1, '
            f'got {tuple(box)}'
        )
    h0, w0, h1, w1 = box
    return float(h0), float(w0), float(h1), float(w1)
