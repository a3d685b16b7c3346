"""From views to latents: z = g(f(x))."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .backbones.features import pool_features


def embed_views(
    backbone: nn.Module, neck: nn.Module | None, views: Sequence[Tensor]
) -> Tensor:
    """Embed views, those of one size together.

    Args:
        backbone (nn.Module): f.
        neck (nn.Module | None): g, the projector. It sees the views of one size at a
            time, as the backbone does. A batch norm over all of them would allow two
            points, one for all large and one for all small crops: without a teacher,
            runs collapse to them. None for the bare embedding.
        views (Sequence[Tensor]): View by view, each of shape (n, c, h, w).

    Returns:
        Tensor: Latents ordered view by view, shape (V * n, d).
    """
    by_size: dict[torch.Size, list[int]] = {}
    for index, view in enumerate(views):
        by_size.setdefault(view.shape[-2:], []).append(index)
    latents: list[Tensor] = [None] * len(views)
    for indices in by_size.values():
        z = pool_features(backbone(torch.cat([views[i] for i in indices])))
        if neck is not None:
            z = neck(z)
        for index, part in zip(indices, z.chunk(len(indices))):
            latents[index] = part
    return torch.cat(latents)
