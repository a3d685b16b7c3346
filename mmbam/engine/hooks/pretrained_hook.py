"""Start a downstream training from a pre-trained backbone, all of it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmbam.checkpoints import load_backbone
from mmbam.checkpoints.inflation import INFLATE
from mmbam.checkpoints.selection import SOURCES
from mmbam.registry import HOOKS
from mmbam.utils.errors import InputError
from mmbam.utils.model import unwrap


@HOOKS.register_module()
@dataclass(eq=False)
class PretrainedBackboneHook(Hook):
    """Load ``model.backbone`` strictly before training begins.

    OpenMMLab's ``init_cfg=dict(type='Pretrained')`` only warns of weights that do not
    fit; this hook loads all weights or raises an error. It works in configs of
    mmpretrain, mmdet and mmsegmentation, and for BAM itself, whose moving average then
    starts equal to the student. A resumed run keeps its own weights.

    Args:
        checkpoint (str, optional): A checkpoint of this project or any other that
            :func:`mmbam.checkpoints.load_backbone` reads. Every rank reads it, so every
            machine needs it. Defaults to None: the file that the environment variable
            ``MMBAM_CHECKPOINT`` names.
        source (str): ``'teacher'``, ``'student'``, or ``'auto'`` for the teacher where
            it is a moving average; see :func:`mmbam.checkpoints.select_backbone`.
            Defaults to ``'auto'``.
        inflate (str, optional): ``'mean'`` or ``'repeat'`` for weights of RGB in a
            network of another number of bands; see
            :func:`mmbam.checkpoints.inflate_input`. Defaults to None: refused.
        prefix (str, optional): What the names of the backbone's weights begin with in
            the file. Defaults to None, which finds it.
    """

    # Before hooks that look at the weights when training begins.
    priority = 'VERY_HIGH'

    checkpoint: str | None = None
    source: str = 'auto'
    inflate: str | None = None
    prefix: str | None = None

    def __post_init__(self) -> None:
        for name, known in dict(source=SOURCES, inflate=INFLATE).items():
            if getattr(self, name) not in known:
                raise InputError(
                    f'PretrainedBackboneHook: {name} must be one of {known}, got '
                    f'{getattr(self, name)!r}.'
                )

    def before_train(self, runner: Runner) -> None:
        """Load the weights, on every rank by itself.

        A distributed wrapper shared the first rank's weights when it was made, which
        was earlier.
        """
        if runner.iter > 0:
            runner.logger.info('Resumed: the backbone keeps the weights of the run.')
            return
        checkpoint = self.checkpoint or os.environ.get('MMBAM_CHECKPOINT')
        if not checkpoint:
            raise InputError(
                'PretrainedBackboneHook needs a checkpoint: set its argument '
                'checkpoint or the environment variable MMBAM_CHECKPOINT to a file.'
            )
        model = unwrap(runner.model)
        load_backbone(
            model.backbone, checkpoint, self.source, self.inflate, self.prefix
        )
        if hasattr(model, 'init_teacher'):
            model.init_teacher()
