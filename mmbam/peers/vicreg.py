"""VICReg's head: invariance of two views, variance and covariance of latents."""

from __future__ import annotations

import torch
import torch.distributed.nn.functional as dist_nn
import torch.nn.functional as F
from mmengine.dist import get_world_size
from mmengine.model import BaseModule
from torch import Tensor

from mmbam.registry import MODELS
from mmbam.utils.errors import InputError


@MODELS.register_module()
class VICRegHead(BaseModule):
    """Pulls two views of an image together, keeps latents varied and uncorrelated.

    From `VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised
    Learning <https://arxiv.org/abs/2105.04906>`_ (ICLR 2022), for the algorithm
    ``BarlowTwins`` of mmpretrain, whose networks are the same. As in the authors'
    release, the variance term is the mean over views and the covariance term their sum.
    Variances and covariances are those of all ranks' images.

    Args:
        invariance (float): Weight of the squared distance of views. Defaults to 25.
        variance (float): Weight of how far deviations are below 1. Defaults to 25.
        covariance (float): Weight of the squared covariances of different latents.
            Defaults to 1.
        init_cfg (dict, optional): Initialization of the weights. Defaults to None.
    """

    def __init__(
        self,
        invariance: float = 25.0,
        variance: float = 25.0,
        covariance: float = 1.0,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg)
        for name, weight in (
            ('invariance', invariance),
            ('variance', variance),
            ('covariance', covariance),
        ):
            if not weight >= 0:
                raise InputError(f'{name} must be at least 0, but got {weight}.')
        self.invariance, self.variance = invariance, variance
        self.covariance = covariance

    def loss(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute this rank's loss, a scalar; its mean over ranks is that of the batch.

        Args:
            input (Tensor): Latents of the first views, shape (n, d).
            target (Tensor): Latents of the second views of the same images.
        """
        with torch.autocast(input.device.type, enabled=False):
            Z = torch.stack([input, target]).float()
            N, d = Z.shape[1] * get_world_size(), Z.shape[2]
            centered = Z - _sum_over_ranks(Z.sum(dim=1, keepdim=True)) / N
            covariances = _sum_over_ranks(centered.mT @ centered) / (N - 1)
            variances = covariances.diagonal(dim1=1, dim2=2)
            below = F.relu(1 - (variances + 1e-4).sqrt()).mean()
            others = (covariances.square().sum() - variances.square().sum()) / d
            return (
                self.invariance * F.mse_loss(Z[0], Z[1])
                + self.variance * below
                + self.covariance * others
            )


def _sum_over_ranks(x: Tensor) -> Tensor:
    """Sum of all ranks' tensors, through which gradients flow back to all of them."""
    return dist_nn.all_reduce(x) if get_world_size() > 1 else x
