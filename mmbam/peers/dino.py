"""DINO. mmpretrain has the networks of its successor, not the algorithm."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from mmengine.logging import MessageHub
from mmengine.model import BaseModule
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from mmbam.models.bam import BAM
from mmbam.models.micro_batches import WaitingViews
from mmbam.registry import MODELS


@MODELS.register_module()
class DINONeck(BaseModule):
    """Projector of DINO: an MLP, then cosine similarities with learned prototypes.

    Args:
        in_channels (int): Width of the backbone's embedding.
        hid_channels (int): Width of the hidden layers. Defaults to 2048.
        bottleneck_channels (int): Width of the vectors that are compared with the
            prototypes. Defaults to 256.
        out_channels (int): Number of prototypes. Defaults to 65536.
        init_cfg (dict): Initialization. Defaults to a truncated normal of standard
            deviation 0.02.

    Attributes:
        prototypes_frozen (bool): Whether the prototypes get no gradient.
    """

    def __init__(
        self,
        in_channels: int,
        hid_channels: int = 2048,
        bottleneck_channels: int = 256,
        out_channels: int = 65536,
        init_cfg: dict | list | None = dict(  # noqa: B006
            type='TruncNormal', layer='Linear', std=0.02, bias=0.0
        ),
    ) -> None:
        super().__init__(init_cfg)
        self.mlp = nn.Sequential(
            nn.Linear(in_channels, hid_channels),
            nn.GELU(),
            nn.Linear(hid_channels, hid_channels),
            nn.GELU(),
            nn.Linear(hid_channels, bottleneck_channels),
        )
        self.prototypes = nn.Linear(bottleneck_channels, out_channels, bias=False)
        self.prototypes_frozen = False

    def forward(self, embeddings: Tensor) -> Tensor:
        """Score the prototypes for embeddings (n, in_channels): (n, out_channels)."""
        vectors = F.normalize(self.mlp(embeddings), dim=-1)
        weight = self.prototypes.weight
        if self.prototypes_frozen and weight.requires_grad:
            # Distributed training needs a gradient of every weight: zeros.
            weight = weight.view_as(weight)
            weight.register_hook(torch.zeros_like)
        # Weight norm, applied to the scores: they are fewer than the weights.
        return F.linear(vectors, weight) / weight.norm(dim=1)


@MODELS.register_module()
class DINO(BAM):
    """Self-distillation with no labels.

    `Emerging Properties in Self-Supervised Vision Transformers
    <https://arxiv.org/abs/2104.14294>`_ (ICCV 2021). Views, student and moving average
    are BAM's; projector and loss are its own.

    Args:
        backbone (dict): Config of a backbone of mmpretrain or timm.
        neck (dict): Config of a :class:`DINONeck`.
        head (dict): Config of a :class:`BAMHead` with a :class:`DINOLoss`.
        teacher (dict, optional): Config of the teacher. Defaults to None, which means
            an :class:`EMATeacher` with DINO's momentum, from 0.996 to 1.
        freeze_prototypes (int): Number of epochs at the start of training in which the
            prototypes are not trained. Defaults to 1.
        **kwargs: Other arguments of :class:`BAM`.
    """

    def __init__(
        self,
        backbone: dict,
        neck: dict,
        head: dict,
        teacher: dict | nn.Module | None = None,
        freeze_prototypes: int = 1,
        **kwargs,
    ) -> None:
        teacher = teacher or dict(type='mmbam.EMATeacher', momentum=0.996)
        super().__init__(backbone, neck, head, teacher, **kwargs)
        self.freeze_prototypes = freeze_prototypes

    def loss(
        self,
        inputs: list[Tensor] | WaitingViews,
        data_samples: list[DataSample] | None = None,
    ) -> dict[str, Tensor]:
        """Compute the loss of the views, and the entropy of the teacher's targets."""
        self._read_epoch()
        return super().loss(inputs, data_samples)

    @torch.compiler.disable  # reads the message hub
    def _read_epoch(self) -> None:
        # Set by mmengine's runner. Without a runner, all warm-ups are over.
        epoch = MessageHub.get_current_instance().get_info('epoch', None)
        loss = self.head.loss_module
        loss.epoch = loss.warmup_epochs if epoch is None else epoch
        self.neck.prototypes_frozen = (
            epoch is not None and epoch < self.freeze_prototypes
        )
