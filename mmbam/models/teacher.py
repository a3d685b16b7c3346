"""Teachers: the moving average of the student, or any frozen network."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from mmengine.model import BaseModule
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn

from mmbam.registry import MODELS

from .latents import embed_views


@MODELS.register_module()
class EMATeacher(BaseModule):
    """Exponential moving average of the student's backbone and projector.

    The momentum rises from ``momentum`` to ``end_momentum`` on a cosine over training.
    For short runs take a lower one: an average over more steps than the run has is
    still close to the random start.

    Args:
        momentum (float): Share of itself that the average keeps at the first update.
            Defaults to 0.995.
        end_momentum (float): The same at the end of training. Defaults to 1.0.
    """

    def __init__(self, momentum: float = 0.995, end_momentum: float = 1.0) -> None:
        super().__init__()
        for name, value in dict(momentum=momentum, end_momentum=end_momentum).items():
            if not 0 <= value <= 1:
                raise ValueError(f'{name} must lie in 0..1, but got {value}.')
        self.momentum = momentum
        self.end_momentum = end_momentum

    def init_weights(self) -> None:
        """Nothing of its own: :meth:`copy_from` brings the student's weights."""

    def start(self, backbone: nn.Module, neck: nn.Module) -> None:
        """Become equal to the student."""
        self.backbone = copy.deepcopy(backbone).requires_grad_(False)
        self.neck = copy.deepcopy(neck).requires_grad_(False)

    @torch.no_grad()
    def copy_from(self, backbone: nn.Module, neck: nn.Module) -> None:
        """Take over the student's weights and buffers as they are."""
        self.backbone.load_state_dict(backbone.state_dict())
        self.neck.load_state_dict(neck.state_dict())

    @torch.no_grad()
    def update(self, backbone: nn.Module, neck: nn.Module, progress: float) -> None:
        """Move towards the student.

        Buffers are left alone: in training mode the teacher's batch norm keeps
        statistics of its own.

        Args:
            backbone (nn.Module): The student's backbone.
            neck (nn.Module): The student's projector.
            progress (float): How much of training is over, 0 to 1.
        """
        cosine = (1 + math.cos(math.pi * progress)) / 2
        momentum = self.end_momentum - (self.end_momentum - self.momentum) * cosine
        own, other = [], []
        for mine, theirs in ((self.backbone, backbone), (self.neck, neck)):
            own.extend(mine.parameters())
            other.extend(theirs.parameters())
        torch._foreach_lerp_(own, other, 1 - momentum)

    @torch.no_grad()
    def forward(self, views: Sequence[Tensor]) -> Tensor:
        """Latents of ``views``, view by view, without gradient."""
        return embed_views(self.backbone, self.neck, views)


@MODELS.register_module()
class FrozenTeacher(BaseModule):
    """A pre-trained network, of any architecture and width, that never changes.

    The paper's "any arbitrary teacher" (App. C). The student's latents must have the
    width of the teacher's: set ``out_channels`` of its projector to it.

    Args:
        backbone (dict | nn.Module): The network; in a config, one of mmpretrain's.
        checkpoint (str, optional): Its weights, which must fit without remainder.
            Defaults to None, the weights that ``backbone`` comes with.
        neck (dict | nn.Module, optional): A projector of its own. Defaults to None: the
            pooled features are the latents.
    """

    def __init__(
        self,
        backbone: dict | nn.Module,
        checkpoint: str | None = None,
        neck: dict | nn.Module | None = None,
    ) -> None:
        super().__init__()
        if isinstance(backbone, dict):
            backbone = MMPRETRAIN_MODELS.build(backbone)
        if isinstance(neck, dict):
            neck = MMPRETRAIN_MODELS.build(neck)
        if checkpoint is not None:
            from mmbam.checkpoints import load_backbone

            load_backbone(backbone, checkpoint)
        self.backbone = backbone
        self.neck = neck
        self.requires_grad_(False)
        self.train(False)

    def init_weights(self) -> None:
        """Keep the weights as they are."""

    def start(self, backbone: nn.Module, neck: nn.Module) -> None:
        """Nothing to start from: a frozen teacher does not know its student."""

    copy_from = start

    def update(self, backbone: nn.Module, neck: nn.Module, progress: float) -> None:
        """Nothing to update."""

    def train(self, mode: bool = True) -> FrozenTeacher:
        """Stay in evaluation mode, whatever the student does."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, views: Sequence[Tensor]) -> Tensor:
        """Latents of ``views``, view by view, without gradient."""
        return embed_views(self.backbone, self.neck, views)
