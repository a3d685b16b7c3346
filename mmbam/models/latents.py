"""From views to latents: z = g(f(x))."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .backbones.anatomy import embedding


def embed_views(
    backbone: nn.Module, neck: nn.Module | None, views: Sequence[Tensor]
) -> Tensor:
    """Compute z = g(f(x)), one batch for all views of the same size.

    The projector sees one size at a time too. A batch norm over both sizes would allow
    a collapse to two points, one for all large and one for all small crops, and without
    a teacher runs do collapse to them.

    Args:
        backbone (nn.Module): Network f.
        neck (nn.Module | None): Projector g, None for the embedding itself.
        views (Sequence[Tensor]): Views, each of shape (n, c, h, w).

    Returns:
        Tensor: Latents ordered view by view, shape (V * n, d).
    """
    latents: dict[int, Tensor] = {}
    for indices in group_by_size(views):
        z = embedding(backbone, torch.cat([views[i] for i in indices]))
        if neck is not None:
            z = neck(z)
        for index, part in zip(indices, z.chunk(len(indices))):
            latents[index] = part
    return torch.cat([latents[index] for index in range(len(views))])


def group_by_size(views: Sequence[Tensor]) -> list[list[int]]:
    """Group the indices of views by height and width, in order of appearance."""
    by_size: dict[torch.Size, list[int]] = {}
    for index, view in enumerate(views):
        by_size.setdefault(view.shape[-2:], []).append(index)
    return list(by_size.values())
