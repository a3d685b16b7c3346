"""Features that an export gives, those that it must have, and their difference."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmbam.models import embedding, embedding_and_tokens
from mmbam.models.backbones.anatomy import patch_tokens


class Features(nn.Module):
    """A backbone in evaluation mode that returns its embedding and its feature map.

    Args:
        backbone (nn.Module): A backbone of mmpretrain or timm.
    """

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.train(False)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Compute embeddings (n, c) and maps (n, c, h, w) of normalized images."""
        return embedding_and_tokens(self.backbone, images)


@torch.no_grad()
def reference(backbone: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the features that an export must have, in a pass for each.

    Args:
        backbone (nn.Module): The backbone in evaluation mode.
        images (Tensor): Normalized images of shape (n, 3, H, W).
    """
    return embedding(backbone, images), patch_tokens(backbone, images)


def difference(found: Tensor, expected: Tensor) -> float:
    """Largest difference, as a share of the expected numbers' root mean square."""
    if found.shape != expected.shape:
        return float('inf')
    scale = expected.square().mean().sqrt()
    return ((found - expected).abs().max() / scale).item()
