"""Train a detector or segmentor from a pre-trained backbone, and keep its results."""

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

    Results that are already there for the same settings are returned, so that an
    interrupted series can continue.

    Args:
        cfg (Config): Config with ``mmbam.PretrainedBackboneHook`` among its hooks;
            changed in place.
        checkpoint (str | Path): Checkpoint with the weights of the backbone.
        work_dir (str | Path): Folder for logs, checkpoints and ``outcome.pkl``.
        pictures (int): Number of validation images whose predictions are kept.
            Defaults to 4.

    Returns:
        dict: ``settings``, the config as text; ``metrics`` of the evaluator; and
        ``samples``, for each kept image its ``path``, ``truth`` and ``prediction``.
        The last two are dicts of ``boxes``, ``labels`` and ``masks`` from a detector,
        and maps of classes from a segmentor.
    """
    cfg.work_dir = str(work_dir)
    cfg.log_level = 'ERROR'  # The progress line says enough.
    name = '-'.join(Path(work_dir).parts[-2:])
    # Runs of one process share what mmengine keeps under one name.
    cfg.experiment_name = cfg.visualizer.name = name
    for hook in cfg.custom_hooks:
        if hook.type == 'mmbam.PretrainedBackboneHook':
            hook.checkpoint = str(checkpoint)
    outcome = Path(work_dir) / 'outcome.pkl'
    if outcome.is_file():
        result = mmengine.load(outcome)
        if result['settings'] == cfg.pretty_text:
            return result
    settings = cfg.pretty_text  # The runner adds its own keys later.
    runner = Runner.from_cfg(cfg)
    progress = ProgressHook(lines=5)
    runner.register_hook(progress)
    try:
        # Tables of the evaluation would interrupt the progress line.
        with contextlib.redirect_stdout(io.StringIO()):
            runner.train()
            metrics = {
                # Some versions of mmsegmentation return numpy scalars.
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
    """Keep what a picture needs, as numpy arrays."""
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
