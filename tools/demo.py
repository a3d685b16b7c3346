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
from torch import nn

# mmpretrain warns of operators that pre-training does not use.
warnings.filterwarnings('ignore', message='Fail to import')

from mmbam.demo.report import (  # noqa: E402
    PICTURES,
    draw_pictures,
    report_sections,
    score_table,
)
from mmbam.demo.world import make_world  # noqa: E402
from mmbam.engine.hooks import ProgressHook  # noqa: E402
from mmbam.evaluation import build_loader, extract_features  # noqa: E402
from mmbam.evaluation.summary import score_features  # noqa: E402
from mmbam.visualization.page import write_page  # noqa: E402

CONFIGS = Path(__file__).resolve().parents[1] / 'configs' / 'tiny'
PAGE, RESULTS, START = 'index.html', 'results.json', 'start.pth'
CHAINED = ('detection', 'segmentation', 'video')
# Of the world's 16 classes, how many k-means is to find.
CLUSTERED = (4, 8, 16)


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
    parser.add_argument(
        '--scenes',
        type=int,
        nargs=2,
        default=(200, 50),
        metavar=('TRAIN', 'TEST'),
        help='of the world, to look at (default: 200 50)',
    )
    args = parser.parse_args()
    if args.epochs is not None and args.epochs < 2:
        parser.error(f'--epochs must be at least 2, got {args.epochs}')
    return args


class KeepStart(Hook):
    """Keep a copy of the backbone as it is before the first step."""

    def before_train(self, runner: Runner) -> None:
        self.backbone = copy.deepcopy(runner.model.backbone)


def set_length(cfg: Config, unit: str, length: int) -> None:
    """Give a run and its schedules another length, in max_epochs or max_iters."""
    for scheduler in cfg.param_scheduler:
        if scheduler.end == cfg.train_cfg[unit]:
            scheduler.end = length
    cfg.train_cfg[unit] = length


def load_config(args: argparse.Namespace, imagenet_root: str) -> Config:
    """The tiny config of a backbone, for this world, length and seed."""
    cfg = Config.fromfile(CONFIGS / f'bam_{args.backbone}_32px.py')
    cfg.work_dir = str(Path(args.out) / 'run')
    cfg.randomness = dict(seed=args.seed)
    cfg.log_level = 'ERROR'  # the progress line says enough
    cfg.train_dataloader.dataset.data_root = imagenet_root
    if args.patches[0] < cfg.train_dataloader.batch_size:
        sys.exit(
            f'demo: {args.patches[0]} patches to train on do not fill a batch of '
            f'{cfg.train_dataloader.batch_size}: raise --patches.'
        )
    epochs = args.epochs or cfg.train_cfg.max_epochs
    set_length(cfg, 'max_epochs', epochs)
    for hook in cfg.custom_hooks:
        if hook.type == 'mmbam.KNNHook':
            hook.train_dataset.data_root = imagenet_root
            hook.test_dataset.data_root = imagenet_root
            hook.interval = max(1, epochs // 6)
        if hook.type == 'mmbam.LocalizeHook':
            hook.update(start_epoch=epochs // 2, interval=max(1, epochs // 4))
    return cfg


def train(cfg: Config) -> tuple[Runner, nn.Module]:
    """Pre-train; returns the runner and the backbone as it was at the start."""
    runner = Runner.from_cfg(cfg)
    # Workers get cores of their own: sharing one costs more than a thread gains.
    workers = cfg.train_dataloader.num_workers
    torch.set_num_threads(max(1, torch.get_num_threads() - workers))
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


def evaluate(runner: Runner, start: nn.Module, cfg: Config) -> dict[str, dict]:
    """Scores of raw pixels, of the random and of the trained networks."""
    hook = next(h for h in cfg.custom_hooks if h.type == 'mmbam.KNNHook')
    networks = {
        'raw pixels': nn.Flatten(),
        'random network': start,
        'trained student': runner.model.backbone,
        'trained teacher': runner.model.target_backbone,
    }
    scores = {}
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
        scores[name] = score_features(train_set, test_set, CLUSTERED)
    return scores


def read_scenes(coco_root: str, count: int = 8) -> np.ndarray:
    """The first validation scenes, RGB of shape (n, h, w, 3)."""
    files = sorted((Path(coco_root) / 'val2017').glob('*.jpg'))[:count]
    return np.stack([cv2.imread(str(file))[..., ::-1] for file in files])


def draw(
    out: Path, runner: Runner, start: nn.Module, scores: dict, coco_root: str
) -> list[Path]:
    """Write the pictures."""
    # Test patches as the network saw those it was trained on.
    views = {**runner.cfg.train_dataloader.dataset, 'split': 'val'}
    return draw_pictures(
        out,
        runner.work_dir,
        scores,
        start,
        runner.model.target_backbone,
        runner.model.data_preprocessor,
        build_loader(views, batch_size=200, num_workers=0),
        read_scenes(coco_root),
    )


def introduce(results: dict) -> list[str]:
    """What was done, for the page."""
    train, test = results['patches']
    return [
        f'A tiny {results["backbone"]} was pre-trained with BAM (Balanced '
        f'self-Attention Matching) for {results["epochs"]} epochs on {train} patches '
        f'of photographs, without labels; {test} other patches test it. Chance is '
        f'{100 / CLUSTERED[-1]:.1f} %.',
        f'Seed {results["seed"]}, one run, {results["seconds"]:.0f} seconds on this '
        'machine from making the images to these figures. So small a network and so '
        'few images tell little of what the method does at scale.',
        'The pictures show the teacher, the moving average of the trained networks.',
    ]


def print_table(scores: dict[str, dict]) -> None:
    """The page's first table, for a terminal."""
    of_page = score_table(scores)
    table = Table(title='Frozen features of test patches')
    for number, name in enumerate(of_page.header):
        table.add_column(name, justify='right' if number else 'left')
    for name, *figures in of_page.rows:
        means = (f[0] if isinstance(f, tuple) else f for f in figures)
        table.add_row(name, *(f'{mean:.1f}' for mean in means))
    Console().print(table)


def main() -> None:
    args = parse_args()
    began = time.monotonic()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    # Only what an earlier demo wrote, and what tools/chain.py made of its weights; the
    # world is reused if it fits.
    for name in ('run', *CHAINED):
        shutil.rmtree(out / name, ignore_errors=True)
    for name in (*PICTURES, RESULTS, START, PAGE):
        (out / name).unlink(missing_ok=True)

    print(f'Making the world in {out / "world"}')
    try:
        roots = make_world(
            out / 'world',
            seed=args.seed,
            patches=tuple(args.patches),
            scenes=tuple(args.scenes),
        )
    except (ValueError, OSError) as error:
        sys.exit(f'demo: {error}')
    cfg = load_config(args, roots['imagenet'])
    print(
        f'Pre-training a tiny {args.backbone} with BAM for {cfg.train_cfg.max_epochs} '
        f'epochs on {args.patches[0]} patches without labels'
    )
    runner, start = train(cfg)
    # For whoever wants to start from the same random weights.
    torch.save(dict(state_dict=start.state_dict(prefix='backbone.')), out / START)
    print('Evaluating the features before and after')
    scores = evaluate(runner, start, cfg)
    pictures = draw(out, runner, start, scores, roots['coco'])
    seconds = time.monotonic() - began
    # By measure first: what is compared stands together.
    by_measure = {
        measure: {name: of_network[key] for name, of_network in scores.items()}
        for measure, key in (
            ('knn_top1', 'knn'),
            ('linear_top1', 'linear'),
            ('clustering', 'clustering'),
        )
    }
    settings = dict(vars(args), epochs=cfg.train_cfg.max_epochs)
    results = dict(settings, **by_measure, seconds=round(seconds, 1))
    (out / RESULTS).write_text(json.dumps(results, indent=2))
    write_page(
        out / PAGE,
        'What a tiny network learned with BAM',
        report_sections(introduce(results), scores, pictures),
    )
    print_table(scores)
    print(f'{seconds:.0f} s in all. Figures and pictures: {(out / PAGE).resolve()}')


if __name__ == '__main__':
    try:
        main()
    except KeyboardInterrupt:
        sys.exit('\nStopped. Run the command again to start over.')
