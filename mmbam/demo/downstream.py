"""Train a detector or segmentor from a pre-trained backbone, and keep its results."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement

from mmbam.checkpoints import load_training_checkpoint
from mmbam.engine.hooks import ProgressHook

PICTURES = 4  # validation images whose predictions are kept


def train_dense(
    cfg: Config, checkpoint: str | Path, work_dir: str | Path
) -> dict[str, Any]:
    """Train a config of mmdet or mmsegmentation and evaluate it at the end.

    Results that are already there for the same settings are returned, so that an
    interrupted series can continue.

    Args:
        cfg (Config): Config with ``mmbam.PretrainedBackboneHook`` among its hooks;
            changed in place.
        checkpoint (str | Path): Checkpoint with the weights of the backbone.
        work_dir (str | Path): Folder for logs, checkpoints and ``outcome.pth``.

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
    outcome = Path(work_dir) / 'outcome.pth'
    if outcome.is_file():
        result = load_training_checkpoint(outcome)
        if result.get('settings') == cfg.pretty_text:
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
            if len(samples) >= PICTURES:
                break
    result = dict(settings=settings, metrics=metrics, samples=samples[:PICTURES])
    torch.save(result, outcome)
    return result


def _keep(sample: BaseDataElement) -> dict[str, Any]:
    """Keep what a picture needs, as numpy arrays; objects with a score of 0.2 on."""
    sample = sample.cpu()
    if 'pred_sem_seg' in sample:
        truth = sample.gt_sem_seg.data[0].numpy()
        prediction = sample.pred_sem_seg.data[0].numpy()
        return dict(path=sample.img_path, truth=truth, prediction=prediction)
    known, found = sample.gt_instances, sample.pred_instances
    found = found[found.scores >= 0.2]
    truth = _arrays(known, known.masks.masks)
    return dict(
        path=sample.img_path,
        truth=truth,
        prediction=_arrays(found, found.masks.numpy()),
    )


def _arrays(instances: BaseDataElement, masks: np.ndarray) -> dict[str, np.ndarray]:
    return dict(
        boxes=instances.bboxes.numpy(),
        labels=instances.labels.numpy(),
        masks=masks.astype(bool),
    )
