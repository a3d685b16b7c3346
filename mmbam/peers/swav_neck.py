"""SwAV's projector for a ViT: mmpretrain's takes feature maps alone."""

from __future__ import annotations

import torch
from mmpretrain.models.necks import SwAVNeck
from torch import Tensor

from mmbam.registry import MODELS


@MODELS.register_module()
class VectorSwAVNeck(SwAVNeck):
    """Projector of SwAV for backbones that return a vector, as a ViT its [cls] token.

    The arguments are those of mmpretrain's ``SwAVNeck``.
    """

    def forward(self, x: list[tuple[Tensor, ...]]) -> Tensor:
        """Project the backbone's outputs for each size of crops."""
        return self.forward_projection(torch.cat([outputs[-1] for outputs in x]))
