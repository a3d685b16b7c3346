"""Speed of ``mmbam embed``: ``python benchmarks/embed.py``.

Times :func:`mmbam.evaluation.embed.embed`, which writes embeddings in parts and merges
them, against a bare forward loop without gradients over the same loader.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from mmengine.dataset import default_collate
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import against_forward, parser  # noqa: E402
from mmbam.evaluation.embed import embed  # noqa: E402

TARGET = 1.11


class DecodedImages(Dataset):
    """Random images in memory: decoding would hide the difference."""

    def __init__(self, number: int) -> None:
        self.images = torch.randint(0, 256, (number, 3, 224, 224), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return dict(inputs=self.images[index])


def compare(
    backbone: nn.Module, number: int, batch_size: int
) -> tuple[Callable, Callable]:
    images = DecodedImages(number)
    device = next(backbone.parameters()).device
    names = [str(index) for index in range(number)]
    options = dict(batch_size=batch_size, num_workers=0)

    @torch.no_grad()
    def bare() -> None:
        for batch in DataLoader(images, collate_fn=default_collate, **options):
            backbone(batch['inputs'].to(device).float())

    def embedded() -> None:
        with tempfile.TemporaryDirectory() as folder:
            embed(backbone, images, Path(folder, 'a.npz'), names=names, **options)

    return bare, embedded


if __name__ == '__main__':
    options = parser(__doc__, images=32, batch_size=16, repeats=5)
    against_forward(compare, 'embed', TARGET, options.parse_args())
