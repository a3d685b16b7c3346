"""Images per second from photographs, from a pack of them, and from its files.

    python benchmarks/packs.py [--folder DIR] [--images N] [--rounds N] [--members N]

Packs photographs of 12 megapixels (made from scikit-image's, or those of ``--folder``)
with ``mmbam pack`` and reads both through the pipeline of
``configs/_base_/datasets/imagenet_2x224_6x96.py``. Then compares shards with the same
files unpacked, through the pipeline and reading alone. Sources take turns on the same
images; figures are medians over the rounds. CPU time is measured, on one thread, so
that other load on the machine disturbs less.

Then makes the index of shards of very small members, opens it, and reads from it in
workers, whose own memory is measured before and after.
"""

from __future__ import annotations

import os

os.environ.setdefault('OMP_NUM_THREADS', '1')  # read when torch is imported

import argparse
import io
import multiprocessing
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.registry import DATASETS, init_default_scope

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import parser, photographs  # noqa: E402
from mmbam.datasets import ShardDataset, dataset_of  # noqa: E402
from mmbam.datasets.shards.index import ShardIndex, build_index  # noqa: E402
from mmbam.datasets.shards.pack import pack_images  # noqa: E402

CONFIG = Path(__file__).parents[1] / 'configs/_base_/datasets/imagenet_2x224_6x96.py'
SHARDS = 10


def make_photographs(folder: Path, count: int) -> None:
    """Write JPEGs of 4000 x 3000: enlarged photographs with the noise of a camera."""
    originals = photographs()
    rng = np.random.default_rng(0)
    for i in range(count):
        photograph = originals[i % len(originals)][..., ::-1]
        large = cv2.resize(photograph, (4000, 3000), interpolation=cv2.INTER_CUBIC)
        noise = rng.normal(0, 2, large.shape[:2])[..., None]
        large = (large + noise).clip(0, 255).astype(np.uint8)
        cv2.imwrite(str(folder / f'{i:04}.jpg'), large, [cv2.IMWRITE_JPEG_QUALITY, 90])


def unpack(pack: Path, folder: Path) -> None:
    """Write the images of a pack as files."""
    folder.mkdir()
    for shard in sorted(pack.glob('*.tar')):
        with tarfile.open(shard) as archive:
            for member in archive:
                if not member.name.endswith('.json'):
                    content = archive.extractfile(member).read()
                    (folder / member.name).write_bytes(content)


def measure(
    sources: dict[str, Callable[[int], object]], images: int, rounds: int
) -> dict[str, np.ndarray]:
    """Images per second of CPU time, one value per round, for each source."""
    rates: dict[str, list[float]] = {name: [] for name in sources}
    for turn in range(rounds + 1):
        for name, read in sources.items():
            start = time.process_time()
            for i in range(images):
                read(i)
            if turn:  # the first fills caches
                rates[name].append(images / (time.process_time() - start))
    return {name: np.array(values) for name, values in rates.items()}


def compare_reading(args: argparse.Namespace, folder: Path) -> None:
    """Print the rates of photographs, of their pack, and of its files."""
    photographs = args.folder or folder / 'photographs'
    if args.folder is None:
        photographs.mkdir()
        make_photographs(photographs, args.images)
    start = time.process_time()
    pack_images(photographs, folder / 'pack', workers=0)
    packing = time.process_time() - start
    unpack(folder / 'pack', folder / 'files')
    pipeline = Config.fromfile(CONFIG).train_pipeline
    built = {
        name: DATASETS.build(dataset_of(place, pipeline=pipeline))
        for name, place in (
            ('photographs', photographs),
            ('pack', folder / 'pack'),
            ('files', folder / 'files'),
        )
    }
    images = min(args.images, len(built['pack']))
    views = {name: dataset.__getitem__ for name, dataset in built.items()}
    rates = measure(views, images, args.rounds)
    load = {f'{name}, decoding': _decoding(built[name]) for name in ('pack', 'files')}
    rates.update(measure(load, images, args.rounds))
    print(f'{images} images, {args.rounds} rounds, one thread')
    print(f'packing: {images / packing:.1f} images/s')
    print(f'{"":30}{"images/s":>10}')
    for name, rate in rates.items():
        print(f'{name:30}{np.median(rate):10.1f}')
    for first, second in (
        ('pack', 'photographs'),
        ('pack', 'files'),
        ('pack, decoding', 'files, decoding'),
    ):
        ratio = np.median(rates[first] / rates[second])
        print(f'{first} / {second}: {ratio:.2f} x')


def _decoding(dataset) -> Callable[[int], object]:
    transforms = dataset.pipeline.transforms
    load = next(t for t in transforms if type(t).__name__ == 'LoadImage')
    return lambda i: load(dataset.get_data_info(i))


def make_members(folder: Path, members: int) -> None:
    """Write shards of members that hold little, half of them images."""
    image = cv2.imencode('.jpg', np.zeros((8, 8, 3), np.uint8))[1].tobytes()
    each = members // 2 // SHARDS
    for shard in range(SHARDS):
        parts = io.BytesIO()
        for i in range(shard * each, (shard + 1) * each):
            for ending, content in (('jpg', image), ('cls', b'%d' % (i % 1000))):
                info = tarfile.TarInfo(f'{i:08}.{ending}')
                info.size = len(content)
                parts.write(info.tobuf(tarfile.USTAR_FORMAT))
                parts.write(content + bytes(-len(content) % 512))
        (folder / f'{shard:03}.tar').write_bytes(parts.getbuffer())


def own_memory() -> float:
    """Memory that this process wrote and shares with no other, in MB."""
    lines = Path('/proc/self/smaps_rollup').read_text().splitlines()
    (line,) = (line for line in lines if line.startswith('Private_Dirty'))
    return int(line.split()[1]) / 1024


def read_all(dataset: ShardDataset, seed: int, results) -> None:
    """Read every sample twice in a random order, as the worker of a loader."""
    order = np.random.default_rng(seed).permutation(len(dataset))
    memory = []
    for part in (order[:1000], order, order):
        for i in part:
            dataset.get_data_info(int(i))['img_bytes']()
        memory.append(own_memory())
    results.put(memory)


def index_many(args: argparse.Namespace, folder: Path) -> None:
    """Print the time to make and to open an index, and the memory of workers."""
    make_members(folder, args.members)
    names = sorted(path.name for path in folder.iterdir())
    start, cpu = time.perf_counter(), time.process_time()
    build_index(folder, names, folder / 'shards.index')
    made, cpu = time.perf_counter() - start, time.process_time() - cpu
    start = time.perf_counter()
    images = len(ShardIndex(folder / 'shards.index', folder))
    opened = time.perf_counter() - start
    start = time.perf_counter()
    dataset = ShardDataset(str(folder), with_label=True)
    built = time.perf_counter() - start
    print(f'{args.members:,} members, {images:,} images with labels')
    print(f'making the index: {made:.1f} s, of which {cpu:.1f} s of CPU')
    print(f'opening it: {opened:.3f} s; building the data set: {built:.3f} s')
    context = multiprocessing.get_context('fork')
    results = context.SimpleQueue()
    workers = [
        context.Process(target=read_all, args=(dataset, seed, results))
        for seed in range(2)
    ]
    for worker in workers:
        worker.start()
    for number in range(len(workers)):
        start, once, twice = results.get()
        print(
            f'memory of worker {number + 1}: {start:.1f} MB after 1,000 images, '
            f'{once:.1f} MB after all, {twice:.1f} MB after all again'
        )
    for worker in workers:
        worker.join()


def main() -> None:
    """Parse the command line, measure and print."""
    options = parser(__doc__, images=20, rounds=5, members=1_000_000)
    options.add_argument('--folder', type=Path, help='use the images of this folder')
    args = options.parse_args()
    init_default_scope('mmpretrain')  # of the types without a prefix
    MMLogger.get_instance('mmbam', log_level='ERROR')
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    place = Path(tempfile.mkdtemp(prefix='mmbam-packs-'))
    try:
        compare_reading(args, place)
        (place / 'many').mkdir()
        index_many(args, place / 'many')
    finally:
        shutil.rmtree(place)


if __name__ == '__main__':
    main()
