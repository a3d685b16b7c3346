"""From what a backbone returns to one vector per image; the size of its patches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from mmbam.utils.errors import InputError


def pool_features(features: Tensor | Sequence) -> Tensor:
    """Turn a backbone's output into the embedding h of each image.

    Args:
        features (Tensor | Sequence): What a backbone of mmpretrain or timm returns: a
            tensor or a tuple of them, of which the last counts (for a
            ``[patch map, cls token]`` pair, the token). A map of shape (n, c, h, w) is
            averaged over its positions, a sequence of tokens of shape (n, l, c) over
            its tokens, and a [cls] token of shape (n, c) is taken as it is.

    Returns:
        Tensor: Embeddings of shape (n, c).
    """
    while isinstance(features, Sequence):
        features = features[-1]
    if features.dim() == 4:
        return features.mean(dim=(2, 3))
    if features.dim() == 3:
        return features.mean(dim=1)
    if features.dim() == 2:
        return features
    raise InputError(
        'A backbone must return features of shape (n, c), (n, l, c) or (n, c, h, w), '
        f'but got {tuple(features.shape)}.'
    )


def patch_size(backbone: nn.Module) -> int:
    """Side of a ViT's patches in pixels; 1 for a network without patches."""
    network = getattr(backbone, 'timm_model', backbone)
    embed = getattr(network, 'patch_embed', None)
    if not isinstance(embed, nn.Module):
        return 1
    strides = (m.stride[0] for m in embed.modules() if isinstance(m, nn.Conv2d))
    return math.prod(strides)
