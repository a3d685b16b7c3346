"""Cost of localization beyond a forward pass: ``python benchmarks/localize.py``.

Times :func:`mmbam.engine.localize.localize`, which finds ContrastiveCrop's boxes,
against a plain forward pass without gradients over the same batches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from mmpretrain.models import SelfSupDataPreprocessor
from torch import Tensor, nn
from torch.utils.data import Dataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import against_forward, parser  # noqa: E402
from mmbam.engine.localize import localize  # noqa: E402

TARGET = 1.15


class DecodedImages(Dataset):
    """Random images in memory, in place of :class:`mmbam.datasets.PlainImages`.

    Both sides would decode in the same way, which would hide the difference.
    """

    size = 224

    def __init__(self, number: int) -> None:
        shape = (number, 3, self.size, self.size)
        self.images = torch.randint(0, 256, shape, dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, str]:
        return self.images[index], ''


def compare(
    backbone: nn.Module, number: int, batch_size: int
) -> tuple[Callable, Callable]:
    images = DecodedImages(number)
    preprocess = SelfSupDataPreprocessor(
        mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True
    ).to(next(backbone.parameters()).device)

    @torch.no_grad()
    def forward() -> None:
        for start in range(0, number, batch_size):
            stop = min(start + batch_size, number)
            batch = torch.stack([images[i][0] for i in range(start, stop)])
            backbone(preprocess(dict(inputs=batch, data_samples=None))['inputs'])

    def find_boxes() -> None:
        localize(
            backbone, preprocess, images, batch_size, num_workers=0, progress=False
        )

    return forward, find_boxes


if __name__ == '__main__':
    options = parser(__doc__, images=32, batch_size=16, repeats=7)
    against_forward(compare, 'localize', TARGET, options.parse_args())
