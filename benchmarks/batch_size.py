"""What the size of a batch does: ``python benchmarks/batch_size.py FOLDER``.

Trains a tiny ViT without batch norm on the images of ``FOLDER/train/<class>/`` for
equal epochs in four ways: batches of 64; batches of 64, their gradients accumulated
over 8; batches of 512 in micro-batches of 64; batches of 512 at once. Prints the k-NN
accuracy of the student on ``FOLDER/test/<class>/`` and the entropies of A and B at the
end.

All ways see the same views of an image in an epoch. The learning rate grows with the
square root of the images per step, and the average of the teacher spans as many images.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.logging import MessageHub, MMLogger
from mmengine.optim import OptimWrapper
from mmpretrain.registry import MODELS
from PIL import Image
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import parser, small_bam  # noqa: E402
from mmbam.evaluation import knn_accuracy  # noqa: E402
from mmbam.models import BAM, embedding  # noqa: E402

SIZE, SMALL, LARGE = 32, 64, 512
# Images in a batch, batches per step of the optimizer, size of a micro-batch.
WAYS: dict[str, tuple[int, int, int | None]] = {
    'batch 64': (SMALL, 1, None),
    'batch 64, accumulated 8 x': (SMALL, LARGE // SMALL, None),
    'batch 512 in micro-batches of 64': (LARGE, 1, SMALL),
    'batch 512': (LARGE, 1, None),
}


def read(folder: Path) -> tuple[Tensor, Tensor]:
    """All images as uint8 (n, 3, 32, 32), and their labels."""
    images, labels = [], []
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    for label, path in enumerate(classes):
        for file in sorted(path.glob('*.jpg')):
            with Image.open(file) as image:
                pixels = np.array(image.convert('RGB').resize((SIZE, SIZE)))
            images.append(torch.from_numpy(pixels).permute(2, 0, 1))
            labels.append(label)
    return torch.stack(images), torch.tensor(labels)


def make_view(images: Tensor, generator: torch.Generator) -> Tensor:
    """A crop of 25 to 100 % of each image, flipped and with other colors, as uint8."""
    n = len(images)

    def draw(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(n, generator=generator)

    scale = draw(0.25, 1.0).sqrt()
    flip = torch.where(draw(0, 1) < 0.5, -1.0, 1.0)
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1] = scale * flip, scale
    theta[:, 0, 2] = (1 - scale) * draw(-1, 1)
    theta[:, 1, 2] = (1 - scale) * draw(-1, 1)
    grid = F.affine_grid(theta, [n, 3, SIZE, SIZE], align_corners=False)
    crops = F.grid_sample(
        images.float(), grid, padding_mode='reflection', align_corners=False
    )
    mean = crops.mean(dim=(2, 3), keepdim=True)
    contrast, light = (draw(0.6, 1.4).view(-1, 1, 1, 1) for _ in range(2))
    tint = 0.8 + 0.4 * torch.rand(n, 3, 1, 1, generator=generator)
    crops = ((crops - mean) * contrast + mean) * light * tint
    gray = (draw(0, 1) < 0.2).view(-1, 1, 1, 1)
    crops = torch.where(gray, crops.mean(dim=1, keepdim=True), crops)
    return crops.clamp(0, 255).byte()


def build(seed: int, momentum: float, micro_batch_size: int | None) -> BAM:
    torch.manual_seed(seed)
    cfg = small_bam(48, 2, SIZE, 2, momentum, micro_batch_size=micro_batch_size)
    cfg['head']['loss'].update(tau_b=0.03)
    model = MODELS.build(cfg)
    model.init_weights()
    return model.train()


def train(images: Tensor, way: str, seed: int, epochs: int, lr: float) -> tuple:
    """A trained model, and the mean entropies of A and B in the last epoch."""
    batch, accumulated, micro_batch_size = WAYS[way]
    share = batch * accumulated / LARGE
    model = build(seed, 0.98**share, micro_batch_size)
    peak = lr * math.sqrt(share)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = OptimWrapper(
        torch.optim.AdamW(trained, lr=peak, weight_decay=0.04),
        accumulative_counts=accumulated,
        clip_grad=dict(max_norm=0.3),
    )
    # Whole large batches for every way, so that all see the same images.
    usable = len(images) // LARGE * LARGE
    iters = epochs * usable // batch
    hub = MessageHub.get_current_instance()
    hub.update_info('max_iters', iters)
    iteration = 0
    for epoch in range(epochs):
        generator = torch.Generator().manual_seed(1000 * seed + epoch)
        order = torch.randperm(len(images), generator=generator)[:usable]
        views = [make_view(images[order], generator) for _ in range(2)]
        entropies = []
        for start in range(0, usable, batch):
            done = iteration / iters
            rate = peak * min(done / 0.1, (1 + math.cos(math.pi * done)) / 2)
            optimizer.param_groups[0]['lr'] = max(rate, 0.01 * peak)
            hub.update_info('iter', iteration)
            part = [view[start : start + batch] for view in views]
            data = dict(inputs=part, data_samples=None)
            logs = model.train_step(data, optimizer)
            entropies.append((logs['entropy_a'].item(), logs['entropy_b'].item()))
            iteration += 1
    return model, [statistics.mean(column) for column in zip(*entropies)]


@torch.no_grad()
def features(model: BAM, images: Tensor) -> Tensor:
    model.eval()
    return torch.cat(
        [
            embedding(
                model.backbone,
                model.data_preprocessor(dict(inputs=part, data_samples=None))['inputs'],
            )
            for part in images.split(500)
        ]
    )


def main() -> None:
    options = parser(__doc__, epochs=10, threads=1)
    options.add_argument('folder', type=Path, help='folder with train/ and test/')
    options.add_argument(
        '--seeds', nargs='+', type=int, default=[0, 1], help='seeds of the runs'
    )
    options.add_argument(
        '--lr', type=float, default=0.003, help='learning rate at batch 512'
    )
    args = options.parse_args()
    torch.set_num_threads(args.threads)
    MMLogger.get_instance('batch_size', log_level='ERROR')
    images, labels = read(args.folder / 'train')
    test_images, test_labels = read(args.folder / 'test')

    def knn(train_features: Tensor, test_features: Tensor) -> float:
        return knn_accuracy(train_features, labels, test_features, test_labels)['top1']

    pixels = knn(images.flatten(1).float(), test_images.flatten(1).float())
    print(
        f'{len(images)} images, {args.epochs} epochs; {len(test_images)} test images, '
        f'standard error at most {50 / math.sqrt(len(test_images)):.1f} points; '
        f'k-NN of raw pixels {pixels:.1f} %'
    )
    print('entropies in nats, of the last epoch; in brackets that of uniform attention')
    for seed in args.seeds:
        model = build(seed, 0.0, None)
        random = knn(features(model, images), features(model, test_images))
        print(f'seed {seed}, random network: k-NN {random:.1f} %', flush=True)
        for way, (batch, *_) in WAYS.items():
            began = time.perf_counter()
            model, (a, b) = train(images, way, seed, args.epochs, args.lr)
            accuracy = knn(features(model, images), features(model, test_images))
            print(
                f'seed {seed}, {way:<33} k-NN {accuracy:5.1f} %  entropy of A {a:.3f}, '
                f'of B {b:.3f} ({math.log(2 * (batch - 1)):.3f})  '
                f'{time.perf_counter() - began:.0f} s',
                flush=True,
            )


if __name__ == '__main__':
    main()
