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

import numpy as np
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import nn

import mmbam
from mmbam.datasets.images import read_image
from mmbam.engine.hooks import ProgressHook
from mmbam.evaluation import build_loader, extract_features
from mmbam.evaluation.summary import score_features
from mmbam.utils.errors import InputError
from mmbam.utils.tables import print_table
from mmbam.visualization.page import write_page

from .report import PICTURES, draw_pictures, report_sections, score_table
from .world import make_world

PAGE, RESULTS, START = 'index.html', 'results.json', 'start.pth'
#: Folders that the chain of downstream tasks adds to those of the demo.
CHAINED = ('detection', 'segmentation', 'video')
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
            Path(self.out, 'world'),
            seed=self.seed,
            patches=(self.patches[0], self.patches[1]),
            scenes=(self.scenes[0], self.scenes[1]),
        )


def tiny_config(name: str) -> Config:
    """Load a config of ``configs/tiny``.

    Args:
        name (str): Name of the file without ``.py``.
    """
    # In a checkout, .mim/configs is a link to configs/; a wheel holds the files.
    package = Path(mmbam.__file__).resolve().parent
    folders = package / '.mim' / 'configs', package.parent / 'configs'
    folder = next((f for f in folders if f.is_dir()), folders[0])
    return Config.fromfile(folder.resolve() / 'tiny' / f'{name}.py')


def set_length(cfg: Config, unit: str, length: int) -> None:
    """Change the length of a run and of its schedules.

    Args:
        cfg (Config): Config of the run, changed in place.
        unit (str): ``'max_epochs'`` or ``'max_iters'``.
        length (int): New length.
    """
    for scheduler in cfg.param_scheduler:
        if scheduler.end == cfg.train_cfg[unit]:
            scheduler.end = length
    cfg.train_cfg[unit] = length


def run_demo(settings: DemoSettings) -> dict:
    """Run the demo, printing its progress and its table.

    Results of an earlier demo in the same folder are replaced; its world is reused if
    the settings are the same.

    Args:
        settings (DemoSettings): What to run.

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
    torch.save(dict(state_dict=start.state_dict(prefix='backbone.')), out / START)
    print('Evaluating the features before and after')
    scores = evaluate(runner, start)
    pictures = _draw(out, runner, start, scores, roots['coco'])
    seconds = time.monotonic() - began
    # Grouped by measure, so that figures to compare stand together.
    by_measure = {
        measure: {name: of_network[key] for name, of_network in scores.items()}
        for measure, key in (
            ('knn_top1', 'knn'),
            ('linear_top1', 'linear'),
            ('clustering', 'clustering'),
        )
    }
    results = dict(asdict(settings), **by_measure, seconds=round(seconds, 1))
    (out / RESULTS).write_text(json.dumps(results, indent=2))
    write_page(
        out / PAGE,
        'What a tiny network learned with BAM',
        report_sections(introduce(results), scores, pictures),
    )
    table = score_table(scores)
    print_table('Frozen features of test patches', table.header, [
        [cell[0] if isinstance(cell, tuple) else cell for cell in row]
        for row in table.rows
    ])  # fmt: skip
    print(f'{seconds:.0f} s in all. Figures and pictures: {(out / PAGE).resolve()}')
    return results


def demo_config(settings: DemoSettings, imagenet_root: str) -> Config:
    """Adapt the tiny config of a backbone to the settings.

    Args:
        settings (DemoSettings): Length, seed and folder of the run.
        imagenet_root (str): Root of the world's ImageNet layout.
    """
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
    """Pre-train a network.

    Args:
        cfg (Config): Result of :func:`demo_config`.

    Returns:
        tuple[Runner, nn.Module]: The runner, and the backbone before training.
    """
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

    Args:
        runner (Runner): Finished runner, whose KNNHook names the data.
        start (nn.Module): Backbone before training.

    Returns:
        dict[str, dict]: Result of :func:`score_features` for each of them.
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


def introduce(results: dict) -> list[str]:
    """Describe in paragraphs what was done.

    Args:
        results (dict): Result of :func:`run_demo`.
    """
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


def _draw(
    out: Path, runner: Runner, start: nn.Module, scores: dict, coco_root: str
) -> list[Path]:
    # Test patches through the views that the network was trained on.
    views = {**runner.cfg.train_dataloader.dataset, 'split': 'val'}
    scenes = sorted((Path(coco_root) / 'val2017').glob('*.jpg'))[:8]
    return draw_pictures(
        out,
        runner.work_dir,
        scores,
        start,
        runner.model.target_backbone,
        runner.model.data_preprocessor,
        build_loader(views, batch_size=200, num_workers=0),
        np.stack([read_image(scene) for scene in scenes]),
    )
