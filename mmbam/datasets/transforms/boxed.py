"""Boxes of crops: one for all samples, one per sample from a table, or none."""

from __future__ import annotations

from collections.abc import Sequence

from mmbam.datasets.boxes import BoxTable
from mmbam.utils.errors import InputError

from .window import Box

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
        """Follow a table of boxes from now on.

        Args:
            table (BoxTable): Box or None for each ``sample_idx``.
        """
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
    """Turn the ``box`` argument of a crop into a box.

    Args:
        box (str | Sequence[float] | None): ``'center'``, or (h0, w0, h1, w1) as
            fractions of the image's height and width, or None.
    """
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
