"""k-NN accuracy after BAM on all 16 bits of 5 bands, and on their upper 8 bits.

    python benchmarks/bands.py [--epochs N] [--train N] [--test N]

Makes images of 8 classes that differ below the eighth bit only, trains the network of
``configs/tiny/bam_resnet_bands.py`` on them twice, with ``depth='full'`` and with
``depth=8``, and prints the accuracy of nearest neighbours on raw pixels, with the
random and with the trained network. Chance is 12.5 %.
"""

from __future__ import annotations

import os

os.environ.setdefault('OMP_NUM_THREADS', '1')  # read when torch is imported

import sys
import tempfile
import time
from pathlib import Path

from mmengine.config import Config
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.band_world import BANDS, VALUE_RANGE, make_band_world  # noqa: E402
from benchmarks.common import parser  # noqa: E402
from mmbam.datasets.statistics import band_statistics  # noqa: E402
from mmbam.datasets.transforms import LoadImage  # noqa: E402
from mmbam.engine.launch import build_runner, load_config  # noqa: E402
from mmbam.evaluation import build_loader, extract_features, knn_accuracy  # noqa: E402
from mmbam.evaluation.frozen import build_frozen  # noqa: E402

CONFIG = Path(__file__).parents[1] / 'configs/tiny/bam_resnet_bands.py'
NAMES = {'full': 'all 16 bits', 8: 'upper 8 bits'}


def read_config(root: Path, work_dir: Path, epochs: int, depth: int | str) -> Config:
    """The config with all of its paths, for one depth."""
    load = LoadImage(channels=BANDS, depth=depth, bits=16)
    statistics, _ = band_statistics(
        sorted((root / 'train').rglob('*.tif')), load, number=200, progress=False
    )
    low, high = (v if depth == 'full' else v / 256 for v in VALUE_RANGE)
    options = {
        'train_cfg.max_epochs': epochs,
        'param_scheduler.1.end': epochs,
        'custom_hooks.1.interval': epochs,
        'train_dataloader.dataset.data_root': str(root),
        'train_dataloader.dataset.pipeline.1.value_range': (low, high),
        'data_preprocessor.mean': statistics.mean.tolist(),
        'data_preprocessor.std': statistics.std.tolist(),
        'train_dataloader.num_workers': 0,
        'train_dataloader.persistent_workers': False,
    }
    places = ['train_dataloader.dataset.pipeline.0']
    for split in ('train', 'test'):
        options[f'custom_hooks.1.{split}_dataset.data_root'] = str(root)
        places.append(f'custom_hooks.1.{split}_dataset.pipeline.0')
    for place in places:
        options[f'{place}.depth'] = depth
        options[f'{place}.bits'] = 16
    return load_config(str(CONFIG), str(work_dir), options)


def measure(root: Path, work_dir: Path, epochs: int, depth: int | str) -> list[float]:
    """Accuracy of raw pixels, the random and the trained network, in percent."""
    cfg = read_config(root, work_dir, epochs, depth)
    backbone, preprocessor = build_frozen(cfg, None)
    hook = cfg.custom_hooks[1]
    accuracies = []
    for network in (nn.Flatten(), backbone):
        features = [
            extract_features(
                network,
                build_loader(dataset, num_workers=0),
                data_preprocessor=preprocessor,
                progress=False,
            )
            for dataset in (hook.train_dataset, hook.test_dataset)
        ]
        accuracies.append(knn_accuracy(*features[0], *features[1])['top1'])
    runner = build_runner(cfg)
    runner.train()
    return [*accuracies, runner.message_hub.get_info('knn_history')[-1]['top1']]


def main() -> None:
    """Parse the command line, measure and print."""
    args = parser(__doc__, epochs=10, train=800, test=200).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = make_band_world(Path(folder, 'world'), args.train, args.test)
        rows = {}
        for depth, name in NAMES.items():
            start = time.process_time()
            rows[name] = measure(root, Path(folder, str(depth)), args.epochs, depth)
            rows[name].append(time.process_time() - start)
    print(
        f'k-NN accuracy, {args.test} test images, {args.epochs} epochs, chance 12.5 %'
    )
    print(f'{"":14}{"pixels":>10}{"random":>10}{"BAM":>10}{"CPU time":>12}')
    for name, (*accuracies, seconds) in rows.items():
        shown = ''.join(f'{accuracy:8.1f} %' for accuracy in accuracies)
        print(f'{name:14}{shown}{seconds:10.0f} s')


if __name__ == '__main__':
    main()
