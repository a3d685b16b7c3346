"""A table of boxes in shared memory."""

from __future__ import annotations

import torch
from torch import Tensor


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
