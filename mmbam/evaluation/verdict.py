"""Which checkpoint of a run, and which of several runs, to take without labels."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mmbam.utils.errors import InputError
from mmbam.utils.logs import only_warnings
from mmbam.utils.progress import Progress
from mmbam.utils.random import preserved_randomness

from .frozen import build_frozen, loading_step, plain_pipeline
from .judge import NEIGHBOURS, Signals, best_of, is_collapsed, measure_signals
from .runs import Run, find_run
from .two_views import Truth, Views, draw_views, embed_two_views, view_dataset


@dataclass(frozen=True)
class Judged:
    """A checkpoint and what was measured of it.

    Args:
        run (str): Work directory of its run.
        checkpoint (str): Name of its file there.
        signals (Signals): What it shows without labels.
        collapsed (bool): See :func:`mmbam.evaluation.judge.is_collapsed`.
        knn (float): Top-1 accuracy of k-NN in per cent; NaN if its features are not
            finite, or it was not measured.
    """

    run: str
    checkpoint: str
    signals: Signals
    collapsed: bool = False
    knn: float = math.nan

    @property
    def name(self) -> str:
        """Path of the file."""
        return str(Path(self.run, self.checkpoint))


@dataclass(frozen=True)
class Verdict:
    """The checkpoints of some runs, and which to take.

    Args:
        checkpoints (list[Judged]): All of them, run by run, the oldest first.
        chosen (dict[str, str | None]): Name of the one to take of each run; None if all
            of them are collapsed.
        best (str | None): Name of the one to take among those.
        images (int): Number of images that were looked at.
        passed_over (dict[str, list[str]]): Damaged files of each run, and why.
        random (dict[str, Judged]): Network of each run before training.
        labeled (bool): Whether the accuracy of k-NN was measured.
    """

    checkpoints: list[Judged]
    chosen: dict[str, str | None]
    best: str | None
    images: int
    passed_over: dict[str, list[str]]
    random: dict[str, Judged]
    labeled: bool = False

    def of_run(self, run: str) -> list[Judged]:
        """The checkpoints of one run."""
        return [one for one in self.checkpoints if one.run == run]

    def to_dict(self) -> dict[str, Any]:
        """All of it as numbers and words."""
        return dict(
            asdict(self),
            checkpoints=[dict(asdict(one), name=one.name) for one in self.checkpoints],
        )


def judge_runs(
    folders: Sequence[str],
    config: str | None = None,
    images: str | None = None,
    number: int = 1000,
    labeled: str | None = None,
    source: str = 'auto',
    seed: int = 0,
    batch_size: int = 64,
    num_workers: int = 2,
) -> Verdict:
    """Measure all checkpoints of some runs, and choose among them without labels.

    All networks see the same views of the same images, which are made by the pipeline
    of the first run.

    Args:
        folders (Sequence[str]): Work directories.
        config (str, optional): Config of all runs. Defaults to None: see
            :func:`find_run`.
        images (str, optional): Folder of images. Defaults to None: training images of
            the first run.
        number (int): Number of images to draw. Defaults to 1000.
        labeled (str, optional): Folder for :func:`train_and_test`, on which the
            accuracy of k-NN is measured too. It has no say in the choice. Defaults to
            None.
        source (str): See :func:`build_frozen`. Defaults to ``'auto'``.
        seed (int): Seed of the images and views. Defaults to 0.
        batch_size (int): Number of images per batch. Defaults to 64.
        num_workers (int): Number of processes that load images. Defaults to 2.
    """
    if number <= NEIGHBOURS:
        raise InputError(
            f'The number of images must be above {NEIGHBOURS}, but got {number}.'
        )
    places = [Path(folder).resolve() for folder in folders]
    if len(set(places)) < len(places):
        raise InputError(f'Each run must be named once, but got {", ".join(folders)}.')
    runs = [find_run(folder, config) for folder in folders]
    dataset = view_dataset(runs[0].cfg, images)
    views = draw_views(dataset, number, seed, batch_size, num_workers)
    size = views[0][0].shape[-1]
    truth = None
    if labeled is not None:
        pipeline = plain_pipeline(size, loading_step(runs[0].cfg))
        truth = Truth(labeled, pipeline, batch_size, num_workers)
    judge = _Judge(views, truth, source)
    random: dict[str, Judged] = {}
    judged: list[Judged] = []
    total = sum(len(run.checkpoints) for run in runs)
    with Progress(total, 'Checkpoints', lines=10) as progress:
        for run in runs:
            random[run.folder] = before = judge.random(run)
            for path in run.checkpoints:
                judged.append(judge.look(run, path, before))
                progress.advance(text=str(path))
    seen = sum(len(batch[0]) for batch in views)
    return choose(judged, runs, random, seen, labeled is not None)


def choose(
    judged: list[Judged],
    runs: Sequence[Run],
    random: dict[str, Judged],
    images: int,
    labeled: bool = False,
) -> Verdict:
    """Choose a checkpoint of each run, and then one of these.

    Args:
        judged (list[Judged]): Checkpoints of all runs.
        runs (Sequence[Run]): The runs.
        random (dict[str, Judged]): Network of each run before training.
        images (int): Number of images that were looked at.
        labeled (bool): Whether the accuracy of k-NN was measured. Defaults to False.
    """
    alive = [one for one in judged if not one.collapsed]
    found = {one.name: one.signals for one in alive}
    chosen = {
        run.folder: best_of({o.name: o.signals for o in alive if o.run == run.folder})
        for run in runs
    }
    best = best_of({name: found[name] for name in chosen.values() if name})
    passed_over = {run.folder: run.passed_over for run in runs if run.passed_over}
    return Verdict(judged, chosen, best, images, passed_over, random, labeled)


class _Judge:
    """Shows the same images to all networks."""

    def __init__(self, views: Views, truth: Truth | None, source: str) -> None:
        self.views, self.truth, self.source = views, truth, source
        self._random: dict[str, tuple[Signals, float]] = {}

    def look(self, run: Run, path: Path, random: Judged) -> Judged:
        """Judge a checkpoint beside its network before training."""
        signals, knn = self._measure(*build_frozen(run.cfg, path, self.source))
        collapsed = is_collapsed(signals, random.signals)
        return Judged(run.folder, path.name, signals, collapsed, knn)

    def random(self, run: Run) -> Judged:
        """Judge the network of a run before training; equal ones are judged once."""
        cfg = copy.deepcopy(run.cfg)
        for loads in ('init_cfg', 'pretrained'):
            cfg.model.backbone.pop(loads, None)
        seen = cfg.model.get('data_preprocessor'), cfg.get('data_preprocessor')
        key = repr((cfg.model.backbone, seen))
        if key not in self._random:
            # mmengine's log would list every weight.
            with only_warnings(), preserved_randomness():
                torch.manual_seed(0)
                network = build_frozen(cfg, None)
            self._random[key] = self._measure(*network)
        signals, knn = self._random[key]
        return Judged(run.folder, 'before training', signals, knn=knn)

    def _measure(
        self, backbone: nn.Module, preprocessor: nn.Module
    ) -> tuple[Signals, float]:
        views = embed_two_views(backbone, preprocessor, self.views)
        knn = self.truth.accuracy(backbone, preprocessor) if self.truth else math.nan
        return measure_signals(views), knn
