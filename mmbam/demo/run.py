"""The demo: make a world, pre-train a tiny network on it with BAM, show the result."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import nn

from mmbam.engine.hooks import ProgressHook
from mmbam.evaluation import (
    build_loader,
    cluster_scores,
    extract_features,
    knn_accuracy,
    linear_probe,
)
from mmbam.utils.config import read_config
from mmbam.utils.errors import InputError
from mmbam.utils.files import save_tensors, write_text
from mmbam.utils.tables import print_table
from mmbam.visualization.page import write_page

from .report import PICTURES, draw_pictures, report_sections, score_table
from .world import make_world

PAGE, RESULTS, START = 'index.html', 'results.json', 'start.pth'
#: Folders that the chain of downstream tasks adds to those of the demo.
CHAINED = ('detection', 'segmentation', 'video')
#: Names of the scores in the results.
MEASURES = dict(knn_top1='knn', linear_top1='linear', clustering='clustering')
#: Numbers of clusters for k-means; the world has 16 classes.
CLUSTERED = (4, 8, 16)


@dataclass
class DemoSettings:
    """What a user can choose in the demo.

    Args:
        backbone (str): ``'resnet'`` or ``'vit'``. Defaults to ``'resnet'``.
        out (str): Folder for the world, the run and its results. Defaults to
            ``'work_dirs/demo'``.
        epochs (int, optional): Number of epochs. Defaults to None, which takes the
            config's.
        seed (int): Seed of the world and of the run. Defaults to 0.
        patches (tuple[int, int]): Number of training and of test patches. Defaults to
            (4000, 800).
        scenes (tuple[int, int]): Number of training and of test scenes. Defaults to
            (200, 50).
    """

    backbone: str = 'resnet'
    out: str = 'work_dirs/demo'
    epochs: int | None = None
    seed: int = 0
    patches: tuple[int, int] = (4000, 800)
    scenes: tuple[int, int] = (200, 50)

    def __post_init__(self) -> None:
        if self.epochs is None:
            self.epochs = tiny_config(f'bam_{self.backbone}_32px').train_cfg.max_epochs
        if self.epochs < 2:
            raise InputError(f'epochs must be at least 2, got {self.epochs}.')

    def make_world(self) -> dict[str, str]:
        """Make the world, or find it; return the root of each of its layouts."""
        return make_world(
            Path(self.out, 'world'), self.seed, patches=self.patches, scenes=self.scenes
        )


def tiny_config(name: str) -> Config:
    """Load a config of ``configs/tiny`` by its name without ``.py``."""
    return read_config(f'mmbam::tiny/{name}.py')


def set_length(cfg: Config, unit: str, length: int) -> None:
    """Change ``max_epochs`` or ``max_iters`` of a run, and its schedules."""
    for scheduler in cfg.param_scheduler:
        if scheduler.end == cfg.train_cfg[unit]:
            scheduler.end = length
    cfg.train_cfg[unit] = length


def run_demo(settings: DemoSettings) -> dict:
    """Run the demo, printing its progress and its table.

    Results of an earlier demo in the same folder are replaced; its world is reused if
    the settings are the same.

    Returns:
        dict: Content of ``results.json``: the settings, ``knn_top1``, ``linear_top1``
        and ``clustering`` by network, and ``seconds``.
    """
    began = time.monotonic()
    out = Path(settings.out)
    out.mkdir(parents=True, exist_ok=True)
    for name in ('run', *CHAINED):
        shutil.rmtree(out / name, ignore_errors=True)
    for name in (*PICTURES, RESULTS, START, PAGE):
        (out / name).unlink(missing_ok=True)

    print(f'Making the world in {out / "world"}')
    roots = settings.make_world()
    cfg = demo_config(settings, roots['imagenet'])
    print(
        f'Pre-training a tiny {settings.backbone} with BAM for {settings.epochs} '
        f'epochs on {settings.patches[0]} patches without labels'
    )
    runner, start = pretrain(cfg)
    # For a comparison with the same random weights.
    save_tensors(dict(state_dict=start.state_dict(prefix='backbone.')), out / START)
    print('Evaluating the features before and after')
    scores = evaluate(runner, start)
    draw_pictures(out, runner, start, scores, roots['coco'])
    seconds = time.monotonic() - began
    # Grouped by measure, so that figures to compare stand together.
    by_measure = {
        measure: {name: of_network[key] for name, of_network in scores.items()}
        for measure, key in MEASURES.items()
    }
    results = dict(asdict(settings), **by_measure, seconds=round(seconds, 1))
    write_text(out / RESULTS, json.dumps(results, indent=2))
    write_page(
        out / PAGE,
        'What a tiny network learned with BAM',
        report_sections(introduce(results), scores, settings.patches[1], out),
    )
    table = score_table(scores, settings.patches[1])
    print_table(
        'Frozen features of test patches',
        table.header,
        [[table.show(cell) for cell in row] for row in table.rows],
    )
    print(f'{seconds:.0f} s in all. Figures and pictures: {(out / PAGE).resolve()}')
    return results


def demo_config(settings: DemoSettings, imagenet_root: str) -> Config:
    """Adapt the tiny config of a backbone to the settings and the world's ImageNet."""
    cfg = tiny_config(f'bam_{settings.backbone}_32px')
    cfg.work_dir = str(Path(settings.out) / 'run')
    cfg.randomness = dict(seed=settings.seed)
    cfg.log_level = 'ERROR'  # The progress line says enough.
    cfg.train_dataloader.dataset.data_root = imagenet_root
    batch_size = cfg.train_dataloader.batch_size
    if settings.patches[0] < batch_size:
        raise InputError(
            f'{settings.patches[0]} patches to train on do not fill a batch of '
            f'{batch_size}: raise --patches.'
        )
    epochs = settings.epochs or cfg.train_cfg.max_epochs
    set_length(cfg, 'max_epochs', epochs)
    for hook in cfg.custom_hooks:
        if hook.type == 'mmbam.KNNHook':
            hook.train_dataset.data_root = imagenet_root
            hook.test_dataset.data_root = imagenet_root
            hook.interval = max(1, epochs // 6)
        if hook.type == 'mmbam.LocalizeHook':
            hook.update(start_epoch=epochs // 2, interval=max(1, epochs // 4))
    return cfg


class KeepStart(Hook):
    """Keep a copy of the backbone from before the first step."""

    def before_train(self, runner: Runner) -> None:
        self.backbone = copy.deepcopy(runner.model.backbone)


def pretrain(cfg: Config) -> tuple[Runner, nn.Module]:
    """Pre-train a network; return the runner, and the backbone before training."""
    runner = Runner.from_cfg(cfg)
    start, progress = KeepStart(), ProgressHook()
    runner.register_hook(start)
    runner.register_hook(progress)
    # Workers get cores of their own: sharing one costs more than a thread gains.
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, threads - cfg.train_dataloader.num_workers))
    try:
        # Progress bars of the evaluations would interrupt the progress line.
        with contextlib.redirect_stdout(io.StringIO()):
            runner.train()
    finally:
        progress.close()
        torch.set_num_threads(threads)
    return runner, start.backbone


def evaluate(runner: Runner, start: nn.Module) -> dict[str, dict]:
    """Score raw pixels, the random network and the trained networks.

    The KNNHook of the finished run names the data.
    """
    hook = next(h for h in runner.cfg.custom_hooks if h.type == 'mmbam.KNNHook')
    networks = {
        'raw pixels': nn.Flatten(),
        'random network': start,
        'trained student': runner.model.backbone,
        'trained teacher': runner.model.target_backbone,
    }
    scores = {}
    for name, network in networks.items():
        train, test = (
            extract_features(
                network,
                build_loader(hook[part], batch_size=hook.batch_size, num_workers=0),
                data_preprocessor=runner.model.data_preprocessor,
                progress=False,
            )
            for part in ('train_dataset', 'test_dataset')
        )
        scores[name] = dict(
            knn=knn_accuracy(*train, *test)['top1'],
            linear=linear_probe(*train, *test)['top1'],
            clustering=cluster_scores(*test, CLUSTERED),
        )
    return scores


def introduce(results: dict) -> list[str]:
    """Describe in paragraphs what was done, from the content of ``results.json``."""
    train, test = results['patches']
    return [
        f'A tiny {results["backbone"]} was pre-trained with BAM (Balanced '
        f'self-Attention Matching) for {results["epochs"]} epochs on {train} patches '
        f'of photographs, without labels; {test} other patches test it. Chance is '
        f'{100 / CLUSTERED[-1]:.1f} %.',
        f'Seed {results["seed"]}, one run, {results["seconds"]:.0f} seconds on this '
        'machine from making the images to these figures. A network this small, '
        'trained on so few images, says little about the method at scale.',
        'The pictures show the teacher, the moving average of the trained networks.',
    ]
