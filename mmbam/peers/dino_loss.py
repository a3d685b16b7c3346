"""DINO's loss: cross-entropy with a centered and sharpened teacher."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from mmengine.dist import all_reduce
from torch import Tensor, nn

from mmbam.registry import MODELS
from mmbam.utils.errors import InputError


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
