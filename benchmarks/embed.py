"""Speed of ``mmbam embed``: ``python benchmarks/embed.py``.

Times :func:`mmbam.evaluation.embed.embed`, which writes embeddings in parts and merges
them, against a bare forward loop without gradients over the same loader. Other jobs may
share the machine: repeats alternate between the two and the median of their ratios
counts. On a CPU it is CPU time on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import torch
from mmengine.dataset import default_collate
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.arguments import positive  # noqa: E402
from benchmarks.forward import BACKBONES, seconds  # noqa: E402
from mmbam.evaluation.embed import embed  # noqa: E402

TARGET = 0.9


class DecodedImages(Dataset):
    """Random images in memory: decoding would hide the difference."""

    def __init__(self, number: int) -> None:
        self.images = torch.randint(0, 256, (number, 3, 224, 224), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return dict(inputs=self.images[index])


def compare(
    backbone: nn.Module, images: DecodedImages, batch_size: int, repeats: int
) -> tuple[float, float, float]:
    """Medians: seconds of the bare loop, seconds of embed, speed of embed to bare."""
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    backbone.to(device)
    backbone.eval()
    names = [str(number) for number in range(len(images))]
    options = dict(batch_size=batch_size, num_workers=0)

    def bare() -> None:
        with torch.no_grad():
            loader = DataLoader(images, collate_fn=default_collate, **options)
            for batch in loader:
                backbone(batch['inputs'].to(device).float())

    def embedded() -> None:
        with tempfile.TemporaryDirectory() as folder:
            embed(backbone, images, Path(folder, 'a.npz'), names=names, **options)

    bare(), embedded()  # warm up
    times = [(seconds(bare), seconds(embedded)) for _ in range(repeats)]
    plain, made = zip(*times)
    ratio = statistics.median(a / b for a, b in times)
    return statistics.median(plain), statistics.median(made), ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--images', type=positive, default=32)
    parser.add_argument('--batch-size', type=positive, default=16)
    parser.add_argument('--repeats', type=positive, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    images = DecodedImages(args.images)
    rows = []
    for name, build in BACKBONES.items():
        plain, made, ratio = compare(build(), images, args.batch_size, args.repeats)
        verdict = 'met' if ratio >= TARGET else 'MISSED'
        rows.append(
            f'{name:10} {plain:8.2f} s {made:8.2f} s {ratio:7.3f}  '
            f'>= {TARGET}: {verdict}'
        )
    print(f'\n{args.images} images of 224 x 224, median of {args.repeats} repeats')
    print(f'{"backbone":10} {"forward":>10} {"embed":>10} {"speed":>7}  target')
    print('\n'.join(rows))


if __name__ == '__main__':
    main()
