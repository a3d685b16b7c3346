"""What features show without labels: effective rank, similarities, neighbours."""

from __future__ import annotations

import torch
from mmengine.dist import all_reduce
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


def rankme(features: Tensor) -> float:
    """Compute the exponential of the entropy of the features' singular values.

    `RankMe <https://arxiv.org/abs/2210.02885>`_ (ICML 2023), definition 1. It ranges
    from 1, where all features lie on one line, to the smaller of N and d.

    Args:
        features (Tensor): Features of shape (N, d).

    Returns:
        float: The effective rank; NaN if some features are not finite.
    """
    if features.dim() != 2 or len(features) == 0:
        raise ValueError(
            'RankMe needs features of shape (N, d) with N > 0, but got '
            f'{tuple(features.shape)}.'
        )
    # Eigenvalues of the d x d or the N x N products, whichever are fewer. In double,
    # since a root has half the digits of its square.
    x = features.detach().double()
    products = x @ x.T if len(x) < x.shape[1] else x.T @ x
    if not products.isfinite().all():
        return float('nan')
    values = torch.linalg.eigvalsh(products).clamp(min=0).sqrt()
    total = values.sum()
    if total == 0:
        return 1.0  # All features are zero, a single point.
    shares = values / total
    entropy = -torch.special.xlogy(shares, shares).sum()
    return entropy.exp().item()


def pair_similarities(latents: Tensor) -> tuple[float, float]:
    """Average the cosine similarity over positive and over other pairs of views.

    A positive pair is two views of one image, any other pair two views of different
    images, over the images of all ranks. Both means follow from sums of latents, so no
    matrix of similarities is formed.

    Args:
        latents (Tensor): Latents of this rank's images, shape (V, n, d), one row of
            images per view. The number of images may differ between ranks.

    Returns:
        tuple[float, float]: Means over positive and over other pairs; NaN if there is
        no such pair.
    """
    if latents.dim() != 3:
        raise ValueError(
            'Similarities of pairs need latents of shape (V, n, d), but got '
            f'{tuple(latents.shape)}.'
        )
    num_views, num_images, dim = latents.shape
    z = normalize(latents.detach().double(), dim=-1)
    of_image = z.sum(dim=0)
    # |sum of the views|^2 counts each pair twice and each view with itself once; the
    # latter are subtracted. They are 0, not 1, for latents that are all zero.
    squares = of_image.square().sum()
    selves = z.square().sum()
    total = torch.cat(
        [
            of_image.sum(dim=0),
            torch.stack([squares, selves]),
            z.new_tensor([num_images]),
        ]
    )
    all_reduce(total)
    sums, (squares, selves, images) = total[:dim], total[dim:]
    num_positive = images * num_views * (num_views - 1)
    num_other = images * (images - 1) * num_views**2
    positive = (squares - selves) / num_positive
    other = (sums.square().sum() - squares) / num_other
    return positive.item(), other.item()
