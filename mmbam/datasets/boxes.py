"""A table of boxes in shared memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BoxTable:
    """A box (h0, w0, h1, w1) in [0, 1], or none, for each sample of a data set.

    The table is in shared memory: data-loader workers, forked or spawned, persistent or
    not, read what the training process wrote last. Slices and copies share the memory.

    Args:
        length (int): Number of samples. All of them start without a box.
    """

    def __init__(self, length: int) -> None:
        if length < 1:
            raise ValueError(f'A box table needs at least 1 sample, but got {length}.')
        # A torch tensor, because pickling a numpy array for a worker would copy it.
        self._boxes = torch.full((length, 4), float('nan')).share_memory_()

    def __len__(self) -> int:
        return len(self._boxes)

    def __getitem__(self, index: int) -> tuple[float, float, float, float] | None:
        """Return the box of a sample, or None."""
        box = self._boxes[index].tolist()
        return None if box[0] != box[0] else tuple(box)

    def __deepcopy__(self, memo: dict) -> BoxTable:
        return self.slice(0, len(self))

    def slice(self, start: int, stop: int) -> BoxTable:
        """Return the table of some of the samples, in the same memory.

        Args:
            start (int): First sample.
            stop (int): Sample after the last one.
        """
        if not 0 <= start < stop <= len(self):
            raise ValueError(
                f'Samples {start} to {stop} are not within a table of {len(self)}.'
            )
        view = type(self).__new__(type(self))
        view._boxes = self._boxes[start:stop]
        return view

    def write(self, boxes: Tensor) -> None:
        """Set the boxes of all samples.

        Args:
            boxes (Tensor): Boxes of shape (length, 4); a row of NaN means no box.
        """
        if boxes.shape != self._boxes.shape:
            raise ValueError(
                f'A table of {len(self)} samples takes boxes of shape '
                f'{tuple(self._boxes.shape)}, but got {tuple(boxes.shape)}.'
            )
        boxes = boxes.to(self._boxes)
        low, high = boxes[:, :2], boxes[:, 2:]
        valid = (low >= 0) & (low < high) & (high <= 1)
        wrong = (~valid.all(dim=1) & ~boxes.isnan().all(dim=1)).nonzero()
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(
                'A box is 0 <= h0 < h1 <= 1 and 0 <= w0 < w1 <= 1 in the order '
                f'(h0, w0, h1, w1), but sample {row} has {boxes[row].tolist()}.'
            )
        self._boxes.copy_(boxes)

    def read(self) -> Tensor:
        """Return a copy of all rows, of shape (length, 4)."""
        return self._boxes.clone()


def boxes_from_heat_maps(
    heat_maps: Tensor, threshold: float = 0.1, size: int | tuple[int, int] = 224
) -> Tensor:
    """Find the box around the warm part of each heat map, as in ContrastiveCrop.

    Args:
        heat_maps (Tensor): Heat maps of shape (n, h, w), of any range.
        threshold (float): Limit above which a value counts as warm, once its map is
            scaled to [0, 1]. Defaults to 0.1.
        size (int | tuple[int, int]): Height and width to which the maps are upsampled,
            bilinearly, before the threshold. Defaults to 224.

    Returns:
        Tensor: float32 boxes (h0, w0, h1, w1) in [0, 1], of shape (n, 4). A map that is
        flat or not finite gives the whole image.
    """
    heat = heat_maps.float()
    low, high = heat.flatten(1).amin(dim=1), heat.flatten(1).amax(dim=1)
    span = high - low
    # Smaller differences are rounding errors.
    resolution = torch.finfo(heat.dtype).eps * 8
    visible = span.isfinite() & (span > resolution * torch.maximum(-low, high))
    scaled = (heat - low[:, None, None]) / span[:, None, None]
    scaled = nn.functional.interpolate(
        scaled[:, None], size=size, mode='bilinear', align_corners=False
    )[:, 0]
    warm = scaled > threshold
    h0, h1 = _extent(warm.any(dim=2))
    w0, w1 = _extent(warm.any(dim=1))
    boxes = torch.stack((h0, w0, h1, w1), dim=1)
    whole = boxes.new_tensor((0.0, 0.0, 1.0, 1.0))
    return torch.where(visible[:, None], boxes, whole)


def _extent(hit: Tensor) -> tuple[Tensor, Tensor]:
    """Relative edges of the first and the last hit in each row (n, length)."""
    length = hit.shape[1]
    hit = hit.to(torch.uint8)
    first = hit.argmax(dim=1)
    last = length - hit.flip(1).argmax(dim=1)
    return first.float() / length, last.float() / length
