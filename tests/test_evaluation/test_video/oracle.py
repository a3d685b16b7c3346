"""Label propagation the straightforward way: every token against every token.

The tests' and the benchmark's reference. Affinities of all pairs of tokens are formed,
masked to the neighbourhood, thresholded at the k-th largest and normalised.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def neighbourhood(h: int, w: int, radius: int) -> Tensor:
    """1 for the pairs of tokens within the radius, else 0: (h * w, h * w)."""
    row, column = torch.arange(h * w) // w, torch.arange(h * w) % w
    near = (row[:, None] - row).abs() <= radius
    return (near & ((column[:, None] - column).abs() <= radius)).float()


def dense_step(
    query: Tensor,
    context: Tensor,
    labels: Tensor,
    mask: Tensor,
    k: int = 5,
    temperature: float = 0.1,
) -> Tensor:
    """Soft labels (classes, h, w) of a frame.

    Args:
        query (Tensor): Features (c, h, w).
        context (Tensor): Features (n, c, h, w) of the context frames.
        labels (Tensor): Their soft labels (n, classes, h, w).
        mask (Tensor): Of :func:`neighbourhood`.
    """
    h, w = query.shape[1:]
    query = normalize(query, dim=0).flatten(1).T
    context = normalize(context, dim=1).flatten(2)
    affinity = torch.exp(query @ context / temperature) * mask  # (n, queries, keys)
    affinity = affinity.transpose(0, 1).flatten(1)
    kth = affinity.topk(min(k, affinity.shape[1]), dim=1)[0][:, -1:]
    affinity[affinity < kth] = 0
    affinity /= affinity.sum(dim=1, keepdim=True)
    soft = affinity @ labels.flatten(2).transpose(1, 2).flatten(0, 1)
    return soft.T.unflatten(1, (h, w))


def dense_propagation(
    features: list[Tensor], labels: Tensor, last: int, k: int, radius: int
) -> list[Tensor]:
    """Soft labels of every frame after the first."""
    mask = neighbourhood(*labels.shape[1:], radius)
    known = [labels]
    for t in range(1, len(features)):
        context = [0, *range(max(1, t - last), t)]
        soft = dense_step(
            features[t],
            torch.stack([features[i] for i in context]),
            torch.stack([known[i] for i in context]),
            mask,
            k,
        )
        known.append(soft)
    return known[1:]
