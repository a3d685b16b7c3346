"""How many directions the features use, without labels."""

from __future__ import annotations

import torch
from mmengine.dist import all_reduce
from torch import Tensor


def rankme(features: Tensor, sharded: bool = False) -> float:
    """Effective rank of features: the exponential entropy of their singular values.

    `RankMe <https://arxiv.org/abs/2210.02885>`_ (ICML 2023), definition 1: from 1, all
    features on one line, to the smaller of their number and width. The singular values
    are those of the ranks' features together.

    Args:
        features (Tensor): Of shape (N, d).
        sharded (bool): Whether each rank holds a part of the whole. Defaults to False:
            every rank holds all features.

    Returns:
        float: The effective rank; NaN if some features are not finite.
    """
    if features.dim() != 2 or len(features) == 0:
        raise ValueError(
            'RankMe needs features of shape (N, d) with N > 0, but got '
            f'{tuple(features.shape)}.'
        )
    # Through the d x d products, which add up over ranks, or the N x N ones, whichever
    # are fewer; double, because the root of an eigenvalue has half of its digits.
    x = features.detach().double()
    products = x @ x.T if len(x) < x.shape[1] and not sharded else x.T @ x
    if sharded:
        all_reduce(products)
    if not products.isfinite().all():
        return float('nan')
    values = torch.linalg.eigvalsh(products).clamp(min=0).sqrt()
    total = values.sum()
    if total == 0:
        return 1.0  # all features are zero: a single point
    shares = values / total
    entropy = -torch.special.xlogy(shares, shares).sum()
    return entropy.exp().item()
