"""DINO. mmpretrain has the networks of its successor, not the algorithm."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from mmengine.dist import all_reduce
from mmengine.logging import MessageHub
from mmengine.model import BaseModule
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from mmbam.models.bam import BAM
from mmbam.models.micro_batches import WaitingViews
from mmbam.registry import MODELS
from mmbam.utils.errors import InputError


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


@MODELS.register_module()
class DINOLoss(nn.Module):
    """Cross-entropy of each view with the teacher's output for the other target views.

    From `Emerging Properties in Self-Supervised Vision Transformers
    <https://arxiv.org/abs/2104.14294>`_ (ICCV 2021). The center is the moving average
    of the teacher's outputs over the batches of all ranks. It is subtracted first, then
    updated with the batch.

    Args:
        out_channels (int): Number of prototypes.
        num_views (int): V, number of views of an image.
        num_target_views (int): T, number of the first views, which the teacher sees.
            Defaults to 2.
        student_temp (float): Temperature of the student. Defaults to 0.1.
        teacher_temp (float): Temperature of the teacher after its warm-up. Defaults
            to 0.07.
        warmup_teacher_temp (float): Temperature of the teacher at the start. Defaults
            to 0.04.
        warmup_epochs (int): Number of epochs in which the teacher's temperature rises
            linearly; 0 for no warm-up. Defaults to 30.
        center_momentum (float): Momentum of the center. Defaults to 0.9.

    Attributes:
        epoch (int): Epoch of training, for the warm-up.
        stats (dict[str, Tensor]): ``entropy_teacher`` of the last call in nats. Near 0
            or near the logarithm of ``out_channels``, training has collapsed.
    """

    def __init__(
        self,
        out_channels: int,
        num_views: int,
        num_target_views: int = 2,
        student_temp: float = 0.1,
        teacher_temp: float = 0.07,
        warmup_teacher_temp: float = 0.04,
        warmup_epochs: int = 30,
        center_momentum: float = 0.9,
    ) -> None:
        super().__init__()
        if num_views < 2 or not 1 <= num_target_views <= num_views:
            raise InputError(
                'DINOLoss needs at least 2 views and from 1 to all of them as targets, '
                f'but got num_views={num_views} and num_target_views='
                f'{num_target_views}.'
            )
        if min(student_temp, teacher_temp, warmup_teacher_temp) <= 0:
            raise InputError(
                'Temperatures of DINOLoss must be above 0, but got student_temp='
                f'{student_temp}, teacher_temp={teacher_temp}, warmup_teacher_temp='
                f'{warmup_teacher_temp}.'
            )
        if not 0 <= center_momentum <= 1:
            raise InputError(
                f'center_momentum must lie in 0..1, but got {center_momentum}.'
            )
        self.num_views = num_views
        self.num_target_views = self.num_teacher_views = num_target_views
        self.student_temp = student_temp
        self.teacher_temp = teacher_temp
        self.warmup_teacher_temp = warmup_teacher_temp
        self.warmup_epochs = warmup_epochs
        self.center_momentum = center_momentum
        self.epoch = 0
        self.stats: dict[str, Tensor] = {}
        self.register_buffer('center', torch.zeros(out_channels))

    def current_teacher_temp(self) -> float:
        """Return the teacher's temperature in the current epoch."""
        if self.epoch >= self.warmup_epochs:
            return self.teacher_temp
        share = self.epoch / self.warmup_epochs
        rise = self.teacher_temp - self.warmup_teacher_temp
        return self.warmup_teacher_temp + share * rise

    def forward(self, z: Tensor, z_target: Tensor) -> Tensor:
        """Compute the loss of a batch and, in training, update the center.

        Args:
            z (Tensor): Scores of the student for all views, view by view, shape
                (V * n, K).
            z_target (Tensor): Scores of the teacher for the target views, shape
                (T * n, K).

        Returns:
            Tensor: Mean over the images and over the T * (V - 1) pairs of different
            views.
        """
        z_target = z_target.detach().float()
        targets = (z_target - self.center) / self.current_teacher_temp()
        targets = targets.softmax(dim=-1)
        self.stats = dict(entropy_teacher=torch.special.entr(targets).sum(-1).mean())
        targets = targets.chunk(self.num_target_views)
        total = sum(targets)
        loss = z.new_zeros((), dtype=torch.float32)
        # Cross-entropy is linear in its target: one call per source view is enough.
        for source, scores in enumerate(z.float().chunk(self.num_views)):
            is_target = source < self.num_target_views
            others = total - targets[source] if is_target else total
            loss = loss + F.cross_entropy(scores / self.student_temp, others)
        if self.training:
            self._update_center(z_target)
        return loss / (self.num_target_views * (self.num_views - 1))

    @torch.no_grad()
    def _update_center(self, z_target: Tensor) -> None:
        sums = z_target.sum(dim=0)
        counted = torch.cat([sums, sums.new_full((1,), len(z_target))])
        all_reduce(counted)
        self.center.lerp_(counted[:-1] / counted[-1], 1 - self.center_momentum)
