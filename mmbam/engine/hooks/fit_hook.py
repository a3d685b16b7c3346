"""Refuse a checkpoint of another network before its weights are loaded."""

from __future__ import annotations

from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.runner import BaseLoop, Runner

from mmbam.checkpoints import require_fit
from mmbam.models.teacher import FrozenTeacher
from mmbam.utils.errors import InputError
from mmbam.utils.model import unwrap

PREFIX = 'teacher.'


class FitHook(Hook):
    """Compare a checkpoint with the model of the config, however it was found.

    mmengine loads what fits and warns of the rest, so that a run would go on with half
    of its weights at random. Heads may differ where only weights are loaded: detectors
    are fine-tuned on other classes in this way.
    """

    priority = 'VERY_HIGH'

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Check the weights, a frozen teacher, and the optimizer of a resumed run."""
        model = unwrap(runner.model)
        place = runner._load_from or f'the latest checkpoint of {runner.work_dir}'
        resumed = runner._resume
        training = isinstance(runner._train_loop, BaseLoop)
        weights = checkpoint
        if isinstance(checkpoint, dict):
            weights = checkpoint.get('state_dict', checkpoint)
        if not isinstance(weights, dict):
            raise InputError(
                f'{place!r} holds no weights: they are looked for at the top of the '
                'file and under state_dict.'
            )
        weights = {name.removeprefix('module.'): w for name, w in weights.items()}
        require_fit(model, weights, place, heads=resumed or not training)
        if not (resumed and training):
            return
        teacher = getattr(model, 'teacher', None)
        if isinstance(teacher, FrozenTeacher):
            for name, value in teacher.state_dict().items():
                if not torch.equal(weights[PREFIX + name].to(value), value):
                    raise InputError(
                        f'The run in {place!r} has another frozen teacher than '
                        f'model.teacher in the config ({name} differs): resume with '
                        'the same teacher, or start a new run.'
                    )
        self._check_optimizer(runner, checkpoint.get('optimizer'), place)

    def _check_optimizer(self, runner: Runner, saved: Any, place: str) -> None:
        state: Any = runner.optim_wrapper
        if not isinstance(saved, dict) or not hasattr(state, 'state_dict'):
            return
        now = state.state_dict()
        if 'param_groups' not in saved or 'param_groups' not in now:
            return  # several optimizers
        groups = [
            [(len(group['params']), sorted(set(group) - IGNORED)) for group in groups]
            for groups in (saved['param_groups'], now['param_groups'])
        ]
        if groups[0] != groups[1]:
            raise InputError(
                f'The run in {place!r} has another optimizer, or other groups of '
                'weights, than optim_wrapper in the config: resume with the same '
                'optimizer, or start a new run.'
            )


# What schedules and versions of torch add.
IGNORED = {'initial_lr', 'lr', 'foreach', 'fused', 'capturable', 'differentiable',
           'maximize', 'decoupled_weight_decay', 'initial_weight_decay',
           'initial_momentum', 'param_names'}  # fmt: skip
