"""Effective rank of features, without labels."""

from __future__ import annotations

import torch
from mmengine.dist import all_reduce
from torch import Tensor


def rankme(features: Tensor, sharded: bool = False) -> float:
    """Compute the exponential of the entropy of the features' singular values.

    `RankMe <https://arxiv.org/abs/2210.02885>`_ (ICML 2023), definition 1. It ranges
    from 1, where all features lie on one line, to the smaller of N and d.

    Args:
        features (Tensor): Features of shape (N, d).
        sharded (bool): Whether each rank holds one part of the features. Defaults to
            False: every rank holds all of them.

    Returns:
        float: The effective rank; NaN if some features are not finite.
    """
    if features.dim() != 2 or len(features) == 0:
        raise ValueError(
            'RankMe needs features of shape (N, d) with N > 0, but got '
            f'{tuple(features.shape)}.'
        )
    # Eigenvalues of the d x d products, which add up over ranks, or of the N x N ones,
    # whichever are fewer. In double, since a root has half the digits of its square.
    x = features.detach().double()
    products = x @ x.T if len(x) < x.shape[1] and not sharded else x.T @ x
    if sharded:
        all_reduce(products)
    if not products.isfinite().all():
        return float('nan')
    values = torch.linalg.eigvalsh(products).clamp(min=0).sqrt()
    total = values.sum()
    if total == 0:
        return 1.0  # All features are zero, a single point.
    shares = values / total
    entropy = -torch.special.xlogy(shares, shares).sum()
    return entropy.exp().item()
