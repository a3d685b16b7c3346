"""From views to latents: z = g(f(x))."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .features import pool_features


def embed_views(
    backbone: nn.Module, neck: nn.Module | None, views: Sequence[Tensor]
) -> Tensor:
    """Embed views, those of one size together.

    Args:
        backbone (nn.Module): f.
        neck (nn.Module | None): g, the projector. It sees all views at once, so that a
            batch norm in it averages over all of them. None for the bare embedding.
        views (Sequence[Tensor]): View by view, each of shape (n, c, h, w).

    Returns:
        Tensor: Latents ordered view by view, shape (V * n, d).
    """
    by_size: dict[torch.Size, list[int]] = {}
    for index, view in enumerate(views):
        by_size.setdefault(view.shape[-2:], []).append(index)
    features: list[Tensor] = [None] * len(views)
    for indices in by_size.values():
        pooled = pool_features(backbone(torch.cat([views[i] for i in indices])))
        for index, part in zip(indices, pooled.chunk(len(indices))):
            features[index] = part
    embeddings = torch.cat(features)
    return embeddings if neck is None else neck(embeddings)
