"""Agreement of nearest neighbours between two views of images, without labels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from mmbam.utils.errors import InputError

_ROWS = 1024  # of the similarity matrix, computed at a time


def neighbour_agreement(first: Tensor, second: Tensor, k: int = 10) -> float:
    """Compute the share of neighbours that two views of an image have in common.

    Each image looks for its k nearest among the other images, once with all first views
    and once with all second views. The result ranges from k / (N - 1) on average, where
    neighbours are drawn by chance, to 100 %.

    Args:
        first (Tensor): Features of one view of each image, of shape (N, d).
        second (Tensor): Features of another view, of shape (N, d).
        k (int): Number of neighbours. Defaults to 10.

    Returns:
        float: Mean share over the images, in per cent.
    """
    if first.dim() != 2 or first.shape != second.shape or not 1 <= k < len(first):
        raise InputError(
            'The agreement of neighbors needs two tensors of one shape (N, d) with N '
            f'above k of at least 1, but got {tuple(first.shape)}, '
            f'{tuple(second.shape)} and k={k}.'
        )
    # A hint of noise, so that equal features of a collapsed network agree by chance.
    generator = torch.Generator().manual_seed(0)
    found = []
    for features in (first, second):
        z = normalize(features.float().cpu(), dim=1)
        blocks = []
        for start in range(0, len(z), _ROWS):
            similar = z[start : start + _ROWS] @ z.T
            similar += 1e-6 * torch.rand(similar.shape, generator=generator)
            similar.diagonal(start).fill_(-torch.inf)
            blocks.append(similar.topk(k, dim=1).indices)
        found.append(torch.cat(blocks))
    common = (found[0][:, :, None] == found[1][:, None, :]).any(dim=2)
    return 100 * common.double().mean().item()
