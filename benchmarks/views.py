"""Images per second that one core turns into 2 x 224 + 6 x 96 views.

    python benchmarks/views.py [--folder DIR] [--images N] [--rounds N]

Compares the pipeline of ``configs/_base_/datasets/imagenet_2x224_6x96.py`` with the
same views made by torchvision on PIL images and by mmpretrain's MultiView, from the
file to the tensors that a data-loader worker hands over. With torchvision the workers
normalise, as in DINO's code; "uint8 only" leaves that to the model, as OpenMMLab does.
Decoding alone is the ceiling. All pipelines take turns on the same images; figures are
medians over the rounds. CPU time is measured, on one thread, so that other load on the
machine disturbs less.
"""

from __future__ import annotations

import os

os.environ.setdefault('OMP_NUM_THREADS', '1')  # read when torch is imported

import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch
from mmcv.transforms import Compose
from mmengine.config import Config
from mmengine.registry import init_default_scope
from PIL import Image, ImageFilter
from torchvision import transforms as T

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import parser, photographs  # noqa: E402

CONFIG = Path(__file__).parents[1] / 'configs/_base_/datasets/imagenet_2x224_6x96.py'
SUFFIXES = ('.jpg', '.jpeg', '.png')

#: The views of the paper: number, size, share of the area, blur, solarize.
VIEWS = (
    (1, 224, (0.25, 1.0), 1.0, 0.0),
    (1, 224, (0.25, 1.0), 0.1, 0.2),
    (6, 96, (0.05, 0.25), 0.5, 0.0),
)


def make_images(folder: Path, count: int) -> None:
    """Write JPEGs of 500 x 375: parts of scikit-image's photographs."""
    originals = photographs()
    rng = np.random.default_rng(0)
    for i in range(count):
        photograph = originals[i % len(originals)]
        height, width = photograph.shape[:2]
        h = int(min(height, width * 0.75) * rng.uniform(0.8, 1))
        w = h * 4 // 3
        top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
        part = Image.fromarray(photograph[top : top + h, left : left + w])
        part = part.resize((500, 375), Image.BICUBIC)
        part.save(folder / f'{i:04}.jpg', quality=90)


class PILBlur:
    """Gaussian blur as DINO's PIL pipeline has it."""

    def __init__(self, prob: float) -> None:
        self.prob = prob

    def __call__(self, img: Image.Image) -> Image.Image:
        if random.random() >= self.prob:
            return img
        return img.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2.0)))


def torchvision_pipeline(normalise: bool) -> Callable[[str], list]:
    """PIL images through torchvision's transforms."""
    if normalise:
        last = [T.ToTensor(), T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    else:
        last = [T.PILToTensor()]
    views = []
    for num, size, area, blur, solarize in VIEWS:
        view = T.Compose(
            [
                T.RandomResizedCrop(
                    size, area, interpolation=T.InterpolationMode.BICUBIC
                ),
                T.RandomHorizontalFlip(),
                T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
                T.RandomGrayscale(0.2),
                PILBlur(blur),
                *([T.RandomSolarize(128, solarize)] if solarize else []),
                *last,
            ]
        )
        views += [view] * num

    def run(path: str) -> list:
        with Image.open(path) as img:
            img = img.convert('RGB')
        return [view(img) for view in views]

    return run


def mmpretrain_pipeline(backend: str) -> Callable[[str], list]:
    """mmpretrain's transforms, as its SimCLR config strings them together."""
    pipelines = []
    for _, size, area, blur, solarize in VIEWS:
        jitter = dict(
            type='ColorJitter',
            brightness=0.4,
            contrast=0.4,
            saturation=0.4,
            hue=0.1,
            backend=backend,
        )
        pipelines.append(
            [
                dict(
                    type='RandomResizedCrop',
                    scale=size,
                    crop_ratio_range=area,
                    interpolation='bicubic',
                    backend=backend,
                ),
                dict(type='RandomFlip', prob=0.5),
                dict(type='RandomApply', transforms=[jitter], prob=0.8),
                dict(
                    type='RandomGrayscale',
                    prob=0.2,
                    keep_channels=True,
                    channel_weights=(0.114, 0.587, 0.2989),
                ),
                dict(
                    type='GaussianBlur',
                    magnitude_range=(0.1, 2.0),
                    magnitude_std='inf',
                    prob=blur,
                ),
                dict(type='Solarize', thr=128, prob=solarize),
            ]
        )
    multi_view = dict(
        type='MultiView', num_views=[view[0] for view in VIEWS], transforms=pipelines
    )
    decoder = dict(type='LoadImageFromFile', imdecode_backend=backend)
    return _by_path(Compose([decoder, multi_view, dict(type='PackInputs')]))


def _by_path(pipeline: Compose) -> Callable[[str], list]:
    return lambda path: pipeline(dict(img_path=path, sample_idx=0))['inputs']


def measure(
    pipelines: dict[str, Callable], paths: list[str], rounds: int
) -> dict[str, np.ndarray]:
    """Images per second of CPU time, one value per round, for each pipeline."""
    for run in pipelines.values():
        run(paths[0])
    rates: dict[str, list[float]] = {name: [] for name in pipelines}
    for _ in range(rounds):
        for name, run in pipelines.items():
            start = time.process_time()
            for path in paths:
                run(path)
            rates[name].append(len(paths) / (time.process_time() - start))
    return {name: np.array(values) for name, values in rates.items()}


def main() -> None:
    """Parse the command line, measure and print."""
    options = parser(__doc__, images=25, rounds=7)
    options.add_argument('--folder', type=Path, help='use these JPEG and PNG files')
    args = options.parse_args()
    init_default_scope('mmpretrain')  # of the types without a prefix
    warnings.filterwarnings('ignore', message='Only use')  # mmcv, at every image
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)

    with tempfile.TemporaryDirectory() as made:
        if args.folder is None:
            make_images(Path(made), args.images)
        folder = args.folder or Path(made)
        files = sorted(f for f in folder.rglob('*') if f.suffix.lower() in SUFFIXES)
        paths = [str(file) for file in files[: args.images]]
        if not paths:
            options.error(f'no file in {folder} ends in {", ".join(SUFFIXES)}')
        load = Compose([dict(type='mmbam.LoadImage')])
        pipelines = {
            'torchvision, PIL': torchvision_pipeline(normalise=True),
            'torchvision, PIL, uint8 only': torchvision_pipeline(normalise=False),
            'mmpretrain MultiView, pillow': mmpretrain_pipeline('pillow'),
            'mmpretrain MultiView, cv2': mmpretrain_pipeline('cv2'),
            'mmbam MultiCrop': _by_path(
                Compose(Config.fromfile(CONFIG).train_pipeline)
            ),
            'decoding alone': lambda path: load(dict(img_path=path)),
        }
        rates = measure(pipelines, paths, args.rounds)

    print(f'{len(paths)} images, {args.rounds} rounds, one thread')
    print(f'{"":30}{"images/s":>10}{"x torchvision":>15}{"x its uint8":>13}')
    for name, rate in rates.items():
        ratios = (
            np.median(rate / rates[base])
            for base in ('torchvision, PIL', 'torchvision, PIL, uint8 only')
        )
        print('{:30}{:10.1f}{:15.2f}{:13.2f}'.format(name, np.median(rate), *ratios))


if __name__ == '__main__':
    main()
