"""Prepare a run to go on at any iteration, and find where to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mmengine.config import Config, ConfigDict
from mmengine.dist import broadcast_object_list, is_main_process
from mmengine.hooks import CheckpointHook
from mmengine.runner import Runner

from mmbam.checkpoints.newest import damage, newest_checkpoint
from mmbam.utils.errors import InputError

# Loops that can start at any iteration, in place of mmengine's.
LOOPS = {
    'EpochBasedTrainLoop': 'mmbam.EpochLoop',
    'IterBasedTrainLoop': 'mmbam.IterLoop',
}
SEEDING = 'mmbam.SeedByEpochHook'


def set_reliable(cfg: Config) -> None:
    """Let a run of any OpenMMLab project stop and go on at any iteration.

    mmengine's loops and its CheckpointHook are replaced by those of this package, and
    random draws are made to depend on the place in the run alone. Other loops stay. The
    config is changed in place.
    """
    loop: dict[str, Any] = cfg.get('train_cfg') or {}
    by_epoch = loop.get('by_epoch', True)
    kind = loop.get('type', f'{"Epoch" if by_epoch else "Iter"}BasedTrainLoop')
    if loop and kind in LOOPS:
        loop.pop('by_epoch', None)
        loop['type'] = LOOPS[kind]
    if cfg.get('default_hooks') is None:
        cfg.default_hooks = ConfigDict()
    checkpoint = cfg.default_hooks.setdefault('checkpoint', ConfigDict(interval=1))
    if checkpoint and checkpoint.get('type', 'CheckpointHook') == 'CheckpointHook':
        checkpoint['type'] = 'mmbam.CheckpointHook'
    hooks = list(cfg.get('custom_hooks') or [])
    seeded = any(isinstance(h, dict) and h.get('type') == SEEDING for h in hooks)
    if loop.get('type') in LOOPS.values() and not seeded:
        cfg.custom_hooks = [dict(type=SEEDING), *hooks]


def find_checkpoint(runner: Runner) -> None:
    """Set the checkpoint to resume from: the one that was named, or the newest."""
    named = runner.cfg.get('load_from')
    if named:
        reason = damage(named) if '://' not in named and is_main_process() else None
        if reason:
            raise InputError(f'{named!r} is not a checkpoint to resume from: {reason}.')
        return
    folders = [runner.work_dir]
    for hook in runner.hooks:
        if isinstance(hook, CheckpointHook) and hook.out_dir is not None:
            folders.append(str(Path(hook.out_dir, Path(runner.work_dir).name)))
    found: list[Any] = [None, []]
    if is_main_process():
        found = list(newest_checkpoint(folders, len(runner.train_dataloader)))
    broadcast_object_list(found)
    path, passed_over = found
    if passed_over:
        runner.logger.warning(f'Passed over {", ".join(passed_over)}.')
    if path is None:
        runner.logger.warning(
            f'no checkpoint in {runner.work_dir}: starting from the beginning'
        )
    else:
        runner.logger.info(f'Resuming from {path}.')
    # Otherwise mmengine would read `last_checkpoint`.
    runner._resume = path is not None
    runner.cfg.load_from = runner._load_from = None if path is None else str(path)
