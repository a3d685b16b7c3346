"""Train a detector or segmentor from a pre-trained backbone, and keep what it says."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import mmengine
import numpy as np
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement

from mmbam.engine.hooks import ProgressHook


def train_dense(
    cfg: Config, checkpoint: str | Path, work_dir: str | Path, pictures: int = 4
) -> dict[str, Any]:
    """Train a config of mmdet or mmsegmentation and evaluate it at the end.

    What is already there for the same settings is returned as it is, so that an
    interrupted series goes on.

    Args:
        cfg (Config): With ``mmbam.PretrainedBackboneHook`` among its hooks; changed in
            place.
        checkpoint (str | Path): Where the weights of the backbone come from.
        work_dir (str | Path): For logs, checkpoints and ``outcome.pkl``.
        pictures (int): Number of the first validation images whose predictions are
            kept. Defaults to 4.

    Returns:
        dict: ``settings``, the config as text; ``metrics``, those of its evaluator;
        and ``samples``: for each of the images ``path``, ``truth`` and ``prediction``,
        of which either is a dict of ``boxes``, ``labels`` and ``masks``, or a map of
        classes.
    """
    cfg.work_dir = str(work_dir)
    cfg.log_level = 'ERROR'  # the progress line says enough
    name = '-'.join(Path(work_dir).parts[-2:])
    cfg.experiment_name = cfg.visualizer.name = name  # of its own, for a series of runs
    for hook in cfg.custom_hooks:
        if hook.type == 'mmbam.PretrainedBackboneHook':
            hook.checkpoint = str(checkpoint)
    outcome = Path(work_dir) / 'outcome.pkl'
    if outcome.is_file():
        result = mmengine.load(outcome)
        if result['settings'] == cfg.pretty_text:
            return result
    settings = cfg.pretty_text  # before the runner adds its own
    runner = Runner.from_cfg(cfg)
    progress = ProgressHook(lines=5)
    runner.register_hook(progress)
    try:
        # Tables of the evaluation would interrupt the progress line.
        with contextlib.redirect_stdout(io.StringIO()):
            runner.train()
            metrics = {
                # Some versions of mmsegmentation give numbers of numpy.
                name: value.item() if isinstance(value, np.generic) else value
                for name, value in runner.val().items()
            }
    finally:
        progress.close()
    samples: list[dict] = []
    with torch.no_grad():
        for batch in runner.val_dataloader:
            samples += [_keep(sample) for sample in runner.model.test_step(batch)]
            if len(samples) >= pictures:
                break
    result = dict(settings=settings, metrics=metrics, samples=samples[:pictures])
    mmengine.dump(result, outcome)
    return result


def _keep(sample: BaseDataElement, least_score: float = 0.2) -> dict[str, Any]:
    """Numpy arrays of what a picture needs."""
    if 'pred_sem_seg' in sample:
        return dict(
            path=sample.img_path,
            truth=sample.gt_sem_seg.data[0].cpu().numpy(),
            prediction=sample.pred_sem_seg.data[0].cpu().numpy(),
        )
    found = sample.pred_instances.cpu()
    found = found[found.scores >= least_score]
    known = sample.gt_instances
    return dict(
        path=sample.img_path,
        truth=dict(
            boxes=known.bboxes.cpu().numpy(),
            labels=known.labels.cpu().numpy(),
            masks=known.masks.masks.astype(bool),
        ),
        prediction=dict(
            boxes=found.bboxes.numpy(),
            labels=found.labels.numpy(),
            masks=found.masks.numpy().astype(bool),
        ),
    )
