"""Cost of localization beyond a forward pass: ``python benchmarks/localize.py``.

Times :func:`mmbam.engine.localize.localize`, which finds ContrastiveCrop's boxes,
against a plain forward pass without gradients over the same batches. Other jobs may
share the machine: repeats alternate between the two and the median of their ratios
counts. On a CPU it is CPU time on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

import torch
from mmpretrain.models import SelfSupDataPreprocessor
from torch import Tensor, nn
from torch.utils.data import Dataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.arguments import positive  # noqa: E402
from benchmarks.forward import BACKBONES, seconds  # noqa: E402
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
    backbone: nn.Module, images: DecodedImages, batch_size: int, repeats: int
) -> tuple[float, float, float]:
    """Medians: seconds of the forward pass, seconds of localization, their ratio."""
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    preprocess = SelfSupDataPreprocessor(
        mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True
    ).to(device)
    backbone.to(device)
    backbone.eval()

    def forward() -> None:
        with torch.no_grad():
            for start in range(0, len(images), batch_size):
                stop = min(start + batch_size, len(images))
                batch = torch.stack([images[i][0] for i in range(start, stop)])
                data = preprocess(dict(inputs=batch, data_samples=None))
                backbone(data['inputs'])

    def find_boxes() -> None:
        localize(
            backbone, preprocess, images, batch_size, num_workers=0, progress=False
        )

    forward(), find_boxes()  # warm up
    times = [(seconds(forward), seconds(find_boxes)) for _ in range(repeats)]
    plain, found = zip(*times)
    ratio = statistics.median(b / a for a, b in times)
    return statistics.median(plain), statistics.median(found), ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--images', type=positive, default=32)
    parser.add_argument('--batch-size', type=positive, default=16)
    parser.add_argument('--repeats', type=positive, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    images = DecodedImages(args.images)
    print(f'{args.images} images of 224 x 224, median of {args.repeats} repeats')
    print(f'{"backbone":10} {"forward":>10} {"localize":>10} {"ratio":>7}  target')
    for name, build in BACKBONES.items():
        plain, found, ratio = compare(build(), images, args.batch_size, args.repeats)
        verdict = 'met' if ratio <= TARGET else 'MISSED'
        print(
            f'{name:10} {plain:8.2f} s {found:8.2f} s {ratio:7.3f}  '
            f'<= {TARGET}: {verdict}'
        )


if __name__ == '__main__':
    main()
