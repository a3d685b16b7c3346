"""Teachers: the moving average of the student, or any frozen network."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from mmengine.model import BaseModule
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn

from mmbam.checkpoints import load_backbone
from mmbam.registry import MODELS
from mmbam.utils.errors import InputError

from .latents import embed_views


class Teacher(BaseModule):
    """A backbone and a projector whose latents, without gradient, are the targets.

    The methods do nothing; a teacher that follows its student overrides them.
    """

    backbone: nn.Module
    neck: Any  # a module, or None for embeddings as latents

    def init_weights(self) -> None:
        """Keep the weights when the model that contains the teacher is initialized."""

    def start(self, backbone: nn.Module, neck: nn.Module) -> None:
        """Take over the student's networks."""

    def copy_from(self, backbone: nn.Module, neck: nn.Module) -> None:
        """Take over the student's weights and buffers."""

    def update(self, backbone: nn.Module, neck: nn.Module, progress: float) -> None:
        """Follow the student by one step."""

    @torch.no_grad()
    def forward(self, views: Sequence[Tensor]) -> Tensor:
        """Compute the latents of ``views``, ordered view by view."""
        return embed_views(self.backbone, self.neck, views)


@MODELS.register_module()
class EMATeacher(Teacher):
    """Exponential moving average of the student's backbone and projector.

    The momentum rises from ``momentum`` to ``end_momentum`` on a cosine over training.
    Short runs need a lower momentum: an average over more steps than the run has stays
    close to the random initialization.

    Args:
        momentum (float): Weight of the average itself in the first update. Defaults to
            0.995.
        end_momentum (float): Weight of the average itself at the end of training.
            Defaults to 1.0.
    """

    def __init__(self, momentum: float = 0.995, end_momentum: float = 1.0) -> None:
        super().__init__()
        for name, value in dict(momentum=momentum, end_momentum=end_momentum).items():
            if not 0 <= value <= 1:
                raise InputError(
                    f'EMATeacher: {name} must lie in 0..1, but got {value}.'
                )
        self.momentum = momentum
        self.end_momentum = end_momentum

    def start(self, backbone: nn.Module, neck: nn.Module) -> None:
        """Copy the student's networks."""
        self.backbone = copy.deepcopy(backbone).requires_grad_(False)
        self.neck = copy.deepcopy(neck).requires_grad_(False)

    def copy_from(self, backbone: nn.Module, neck: nn.Module) -> None:
        """Copy the student's weights and buffers."""
        self.backbone.load_state_dict(backbone.state_dict())
        self.neck.load_state_dict(neck.state_dict())

    @torch.no_grad()
    def update(self, backbone: nn.Module, neck: nn.Module, progress: float) -> None:
        """Move the weights towards the student's.

        Buffers stay: in training mode the teacher's batch norm keeps statistics of its
        own.

        Args:
            backbone (nn.Module): The student's backbone.
            neck (nn.Module): The student's projector.
            progress (float): Share of the training that is over, from 0 to 1.
        """
        cosine = (1 + math.cos(math.pi * progress)) / 2
        momentum = self.end_momentum - (self.end_momentum - self.momentum) * cosine
        # Not mmpretrain's CosineEMA: it names the weights differently, so that older
        # checkpoints would not load, and takes 1.6 times as long for a ViT-B.
        torch._foreach_lerp_(
            [*self.backbone.parameters(), *self.neck.parameters()],
            [*backbone.parameters(), *neck.parameters()],
            1 - momentum,
        )


@MODELS.register_module()
class FrozenTeacher(Teacher):
    """A pre-trained network, of any architecture and width, that never changes.

    This is the paper's "any arbitrary teacher" (App. C). The student's latents must be
    as wide as the teacher's: set ``out_channels`` of the student's projector.

    Args:
        backbone (dict | nn.Module): Config of a backbone of mmpretrain, or a network.
        checkpoint (str, optional): File with all weights of the backbone, see
            :func:`mmbam.checkpoints.load_backbone`. Defaults to None: those that a
            network, or timm's ``pretrained``, comes with.
        neck (dict | nn.Module, optional): Projector of the teacher. Defaults to None:
            its embeddings are the latents.
        inflate (str, optional): ``'mean'`` or ``'repeat'`` for weights of RGB in a
            backbone of another number of bands; see
            :func:`mmbam.checkpoints.inflate_input`. Defaults to None: refused.
        prefix (str, optional): What the names of the backbone's weights begin with in
            the checkpoint. Defaults to None, which finds it.
    """

    def __init__(
        self,
        backbone: dict | nn.Module,
        checkpoint: str | None = None,
        neck: dict | nn.Module | None = None,
        inflate: str | None = None,
        prefix: str | None = None,
    ) -> None:
        super().__init__()
        if checkpoint is None and isinstance(backbone, dict):
            # timm's networks may bring weights; an init_cfg is not run here.
            if not (backbone.get('pretrained') or backbone.get('checkpoint_path')):
                raise InputError(
                    'FrozenTeacher: checkpoint must name a file with weights of the '
                    f'{backbone.get("type")}, but got None: its weights would be '
                    'random and stay so.'
                )
        build = MMPRETRAIN_MODELS.build
        self.backbone = build(backbone) if isinstance(backbone, dict) else backbone
        self.neck = build(neck) if isinstance(neck, dict) else neck
        if checkpoint is not None:
            load_backbone(self.backbone, checkpoint, inflate=inflate, prefix=prefix)
        self.requires_grad_(False)
        self.train(False)

    def train(self, mode: bool = True) -> FrozenTeacher:
        """Stay in evaluation mode."""
        return super().train(False)
