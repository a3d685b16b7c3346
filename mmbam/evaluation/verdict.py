"""Which checkpoint of a run, and which of several runs, to take without labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from mmbam.utils.errors import InputError

from .features import extract_features
from .frozen import build_frozen, loading_step, plain_pipeline
from .judge import NEIGHBOURS, SCORES, Signals, correlations, measure_signals, ranking
from .knn import knn_accuracy
from .labeled import train_and_test
from .loaders import build_loader
from .runs import Run, find_run
from .two_views import draw_views, embed_two_views, view_dataset

_VOTES = 20  # neighbours of the k-NN that signals are compared with


@dataclass(frozen=True)
class Judged:
    """A checkpoint and what was measured of it.

    Args:
        run (str): Work directory of its run.
        checkpoint (str): Name of its file there.
        signals (Signals): What it shows without labels.
        knn (float, optional): Top-1 accuracy of k-NN in per cent; NaN if its features
            are not finite. Defaults to None: not measured.
    """

    run: str
    checkpoint: str
    signals: Signals
    knn: float | None = None

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
    """

    checkpoints: list[Judged]
    chosen: dict[str, str | None]
    best: str | None
    images: int
    passed_over: dict[str, list[str]]

    def of_run(self, run: str) -> list[Judged]:
        """The checkpoints of one run."""
        return [one for one in self.checkpoints if one.run == run]

    def correlations(self) -> dict[str, dict[str, Any]]:
        """Compute Spearman's correlation of every score with the accuracy of k-NN.

        Returns:
            dict: For each run, and for ``'all'`` checkpoints, the ``number`` of
            checkpoints with an accuracy, and the correlations of
            :func:`mmbam.evaluation.judge.correlations`, NaN if there are fewer than 2.
        """
        groups = {run: self.of_run(run) for run in self.chosen}
        if len(groups) > 1:
            groups['all'] = self.checkpoints
        return {name: _correlations(group) for name, group in groups.items()}

    def to_dict(self) -> dict[str, Any]:
        """All of it as numbers and words, for JSON; None where there is no number."""
        measured = any(one.knn is not None for one in self.checkpoints)
        result = dict(
            images=self.images,
            best=self.best,
            chosen=self.chosen,
            checkpoints=[
                dict(asdict(one), name=one.name, collapsed=one.signals.collapsed)
                for one in self.checkpoints
            ],
            passed_over=self.passed_over,
            correlations=self.correlations() if measured else None,
        )
        return _without_nan(result)


def judge_runs(
    folders: Sequence[str],
    config: str | None = None,
    images: str | None = None,
    number: int = 500,
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
        number (int): Number of images to draw. Defaults to 500.
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
        truth = _Truth(labeled, pipeline, batch_size, num_workers)
    total = sum(len(run.checkpoints) for run in runs)
    judged: list[Judged] = []
    for run in runs:
        for path in run.checkpoints:
            print(f'{len(judged) + 1} of {total}: {path}', flush=True)
            backbone, preprocessor = build_frozen(run.cfg, path, source)
            signals = measure_signals(embed_two_views(backbone, preprocessor, views))
            knn = truth.accuracy(backbone, preprocessor) if truth else None
            judged.append(Judged(run.folder, path.name, signals, knn))
    return choose(judged, runs, sum(len(batch[0]) for batch in views))


def choose(judged: list[Judged], runs: Sequence[Run], images: int) -> Verdict:
    """Choose a checkpoint of each run, and then one of these."""
    found = {one.name: one.signals for one in judged}
    chosen = {
        run.folder: _first({o.name: o.signals for o in judged if o.run == run.folder})
        for run in runs
    }
    best = _first({name: found[name] for name in chosen.values() if name})
    passed_over = {run.folder: run.passed_over for run in runs if run.passed_over}
    return Verdict(judged, chosen, best, images, passed_over)


def _first(candidates: dict[str, Signals]) -> str | None:
    alive = {name: s for name, s in candidates.items() if not s.collapsed}
    return ranking(alive)[0] if alive else None


def _correlations(group: list[Judged]) -> dict[str, Any]:
    known = [one for one in group if one.knn is not None and math.isfinite(one.knn)]
    result: dict[str, Any] = dict(number=len(known))
    if len(known) < 2:
        return {**result, **dict.fromkeys([*SCORES, 'ranking'], math.nan)}
    signals = {one.name: one.signals for one in known}
    accuracies = {one.name: one.knn for one in known if one.knn is not None}
    return {**result, **correlations(signals, accuracies)}


class _Truth:
    """Accuracy of k-NN on a folder of labeled images."""

    def __init__(
        self, folder: str, pipeline: list[dict], batch_size: int, num_workers: int
    ) -> None:
        train, test, number = train_and_test(folder, pipeline)
        self.k = min(_VOTES, number)
        self.loaders = [build_loader(s, batch_size, num_workers) for s in (train, test)]

    def accuracy(self, backbone: nn.Module, preprocessor: nn.Module) -> float:
        train, test = (
            extract_features(
                backbone, loader, data_preprocessor=preprocessor, progress=False
            )
            for loader in self.loaders
        )
        if not (train[0].isfinite().all() and test[0].isfinite().all()):
            return math.nan
        return knn_accuracy(*train, *test, k=self.k)['top1']


def _without_nan(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_nan(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_without_nan(value) for value in node]
    return None if isinstance(node, float) and not math.isfinite(node) else node
