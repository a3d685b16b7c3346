"""Make a small world, pre-train a tiny network on it with BAM, show what it learned."""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import shutil
import sys
import time
import warnings
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

# mmpretrain warns of operators that pre-training does not use.
warnings.filterwarnings('ignore', message='Fail to import')

from mmbam.datasets.world import make_world  # noqa: E402
from mmbam.engine.hooks import ProgressHook  # noqa: E402
from mmbam.evaluation import (  # noqa: E402
    build_loader,
    extract_features,
    knn_accuracy,
)
from mmbam.evaluation.features import frozen  # noqa: E402
from mmbam.models.saliency import heat_map  # noqa: E402
from mmbam.visualization.curves import draw_curves, read_scalars  # noqa: E402
from mmbam.visualization.heatmaps import draw_heat_maps  # noqa: E402

CONFIGS = Path(__file__).resolve().parents[1] / 'configs' / 'tiny'
TOP1 = 'knn/top1'


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--backbone', choices=('resnet', 'vit'), default='resnet')
    parser.add_argument('--out', default='work_dirs/demo', help='where results go')
    parser.add_argument('--epochs', type=int, help='default: those of the config')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument(
        '--patches',
        type=int,
        nargs=2,
        default=(4000, 800),
        metavar=('TRAIN', 'TEST'),
        help='size of the world (default: 4000 800)',
    )
    args = parser.parse_args()
    if args.epochs is not None and args.epochs < 2:
        parser.error(f'--epochs must be at least 2, got {args.epochs}')
    return args


class KeepStart(Hook):
    """Keep a copy of the backbone as it is before the first step."""

    def before_train(self, runner: Runner) -> None:
        self.backbone = copy.deepcopy(runner.model.backbone)


def load_config(args: argparse.Namespace, imagenet_root: str) -> Config:
    """The tiny config of a backbone, for this world, length and seed."""
    cfg = Config.fromfile(CONFIGS / f'bam_{args.backbone}_32px.py')
    cfg.work_dir = str(Path(args.out) / 'run')
    cfg.randomness = dict(seed=args.seed)
    cfg.log_level = 'ERROR'  # the progress line says enough
    cfg.train_dataloader.dataset.data_root = imagenet_root
    epochs = args.epochs or cfg.train_cfg.max_epochs
    for scheduler in cfg.param_scheduler:
        if scheduler.end == cfg.train_cfg.max_epochs:
            scheduler.end = epochs
    cfg.train_cfg.max_epochs = epochs
    for hook in cfg.custom_hooks:
        if hook.type == 'mmbam.KNNHook':
            hook.train_dataset.data_root = imagenet_root
            hook.test_dataset.data_root = imagenet_root
            hook.interval = max(1, epochs // 10)
        if hook.type == 'mmbam.LocalizeHook':
            hook.update(start_epoch=epochs // 2, interval=max(1, epochs // 4))
    return cfg


def train(cfg: Config) -> tuple[Runner, nn.Module]:
    """Pre-train; returns the runner and the backbone as it was at the start."""
    runner = Runner.from_cfg(cfg)
    # A third faster for convolutions on a CPU.
    runner.model.to(memory_format=torch.channels_last)
    start, progress = KeepStart(), ProgressHook()
    runner.register_hook(start)
    runner.register_hook(progress)
    try:
        # Bars of the evaluations would interrupt the progress line.
        with contextlib.redirect_stdout(io.StringIO()):
            runner.train()
    finally:
        progress.close()
    return runner, start.backbone


def evaluate(runner: Runner, start: nn.Module, cfg: Config) -> dict[str, float]:
    """k-NN accuracy of raw pixels, of the random and of the trained networks."""
    hook = next(h for h in cfg.custom_hooks if h.type == 'mmbam.KNNHook')
    networks = {
        'raw pixels': nn.Flatten(),
        'random network': start,
        'trained student': runner.model.backbone,
        'trained teacher': runner.model.target_backbone,
    }
    accuracies = {}
    for name, network in networks.items():
        train_set, test_set = (
            extract_features(
                network,
                build_loader(hook[part], batch_size=hook.batch_size, num_workers=0),
                data_preprocessor=runner.model.data_preprocessor,
                progress=False,
            )
            for part in ('train_dataset', 'test_dataset')
        )
        accuracies[name] = knn_accuracy(*train_set, *test_set)['top1']
    return accuracies


def read_scenes(coco_root: str, count: int = 8) -> np.ndarray:
    """The first validation scenes, RGB of shape (n, h, w, 3)."""
    files = sorted((Path(coco_root) / 'val2017').glob('*.jpg'))[:count]
    return np.stack([cv2.imread(str(file))[..., ::-1] for file in files])


def scene_heat_maps(runner: Runner, backbone: nn.Module, scenes: np.ndarray) -> Tensor:
    images = torch.from_numpy(scenes[..., ::-1].copy()).permute(0, 3, 1, 2)
    data = runner.model.data_preprocessor(dict(inputs=images, data_samples=None))
    with frozen(backbone):
        return heat_map(backbone, data['inputs'])


def draw(out: Path, runner: Runner, start: nn.Module, accuracies, coco_root) -> None:
    """Write the pictures."""
    log = Path(runner.log_dir) / 'vis_data' / 'scalars.json'
    scalars = read_scalars(log)
    steps, values = scalars[TOP1]
    scalars[TOP1] = ([0, *steps], [accuracies['random network'], *values])
    baselines = {k: accuracies[k] for k in ('raw pixels', 'random network')}
    draw_curves(scalars, out / 'curves.png', baselines)
    scenes = read_scenes(coco_root)
    draw_heat_maps(
        scenes,
        {
            'random network': scene_heat_maps(runner, start, scenes),
            'trained with BAM': scene_heat_maps(
                runner, runner.model.target_backbone, scenes
            ),
        },
        out / 'heatmaps.png',
        'Heat maps of scenes that the network was not trained on',
    )


def print_table(accuracies: dict[str, float]) -> None:
    table = Table(title='k-NN of test patches')
    table.add_column('features')
    table.add_column('accuracy (%)', justify='right')
    for name, value in accuracies.items():
        table.add_row(name, f'{value:.1f}')
    Console().print(table)


def main() -> None:
    args = parse_args()
    began = time.monotonic()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    # Only what an earlier demo wrote; the world is reused if it fits.
    shutil.rmtree(out / 'run', ignore_errors=True)
    for name in ('curves.png', 'heatmaps.png', 'results.json'):
        (out / name).unlink(missing_ok=True)

    print(f'Making the world in {out / "world"}')
    try:
        roots = make_world(out / 'world', seed=args.seed, patches=tuple(args.patches))
    except (ValueError, OSError) as error:
        sys.exit(f'demo: {error}')
    cfg = load_config(args, roots['imagenet'])
    print(
        f'Pre-training a tiny {args.backbone} with BAM for {cfg.train_cfg.max_epochs} '
        f'epochs on {args.patches[0]} patches without labels'
    )
    runner, start = train(cfg)
    accuracies = evaluate(runner, start, cfg)
    draw(out, runner, start, accuracies, roots['coco'])
    seconds = time.monotonic() - began
    results = dict(vars(args), knn_top1=accuracies, seconds=round(seconds, 1))
    (out / 'results.json').write_text(json.dumps(results, indent=2))
    print_table(accuracies)
    print(f'{seconds:.0f} s in all. Pictures and results: {out.resolve()}')


if __name__ == '__main__':
    try:
        main()
    except KeyboardInterrupt:
        sys.exit('\nStopped. Run the command again to start over.')
