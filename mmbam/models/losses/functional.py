"""The four steps of BAM's loss under the paper's names (Sec. 3): S, A, B and match.

There are n images on this rank and N on all ranks, with V views each. The first T views
are the targets. Rows and columns are ordered view by view: row ``v * n + i`` is view v
of image i, column ``t * N + i`` is view t of image i. With one rank and V = T views::

    images = torch.arange(n).repeat(V)
    S = similarity(Z, Z, images, images)  # Z: normalised latents, (V * n, d)
    A = attention(S, tau=0.1)
    B = balance(S, tau_b=0.05)
    loss_of_rows = match(B, A.log())  # each row of B with its own row of A

The loss itself matches a row of B with rows of A that belong to other views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

import torch
from mmengine.dist import all_gather
from torch import Tensor

# Similarity of pairs that are left out. Far enough below -1 for a probability of 0, and
# finite: 0 * log(0) in the cross entropy would not be a number.
EXCLUDED = -1e4


def similarity(
    Z: Tensor,
    Z_target: Tensor,
    images: Tensor,
    target_images: Tensor,
    positive_mask: str | None = 'exclude',
) -> Tensor:
    """S: cosine similarities (Sec. 3.1), without positive pairs (Eq. 3).

    Args:
        Z (Tensor): Latents of length 1, shape (..., M, d).
        Z_target (Tensor): Latents of length 1 to compare with, shape (..., C, d).
        images (Tensor): Index of the image behind each row of ``Z``, shape (M,).
        target_images (Tensor): The same for ``Z_target``, shape (C,).
        positive_mask (str | None): Treatment of two views of one image, see
            :class:`BAMLoss`. Defaults to ``'exclude'``.

    Returns:
        Tensor: S, shape (..., M, C).
    """
    S = Z @ Z_target.mT
    if positive_mask is None:
        return S
    positive = images[:, None] == target_images  # i = j (mod n) in Eq. 3
    return S.masked_fill_(positive, EXCLUDED if positive_mask == 'exclude' else 0.0)


def attention(S: Tensor, tau: float, log: bool = False) -> Tensor:
    """A: soft-max of each row of S at temperature tau (Eq. 1).

    Args:
        S (Tensor): Similarities, shape (..., M, C).
        tau (float): Temperature.
        log (bool): Whether to return log A, which stays exact where A rounds to 0.
            Defaults to False.

    Returns:
        Tensor: A or log A, shape (..., M, C). Rows of A sum to 1.
    """
    return (S / tau).log_softmax(dim=-1) if log else (S / tau).softmax(dim=-1)


@torch.no_grad()
def balance(
    S: Tensor,
    tau_b: float,
    iters: int = 3,
    more: Callable[[], Iterable[Tensor]] = tuple,
) -> Tensor:
    """B: the balanced attention, the transport plan of Eq. 4 by Sinkhorn iterations.

    Each iteration scales the columns of ``K = exp(S / tau_b)`` to equal sums, over the
    rows of all ranks, and then its rows to sum 1. Scaling the columns of K is the same
    as adding a number c to each column of S, and scaling the rows is the soft-max. So B
    is the attention of S + c at temperature tau_b, and only c has to be found.

    Args:
        S (Tensor): Similarities of this rank's rows, shape (..., M, C).
        tau_b (float): Temperature.
        iters (int): Number of iterations. Defaults to 3.
        more (Callable): Function that yields similarities of further rows, shape
            (..., any, C). They count in the sums of the columns and are not returned.
            It is called once in each iteration. Defaults to no further rows.

    Returns:
        Tensor: B, shape (..., M, C). Rows sum to 1.
    """
    c = S.new_zeros(1)
    for i in range(iters):
        log_sums = []  # of the columns
        for s in chain([S], more()):
            if i == 0:  # no rows are scaled yet, and K itself may overflow
                log_sums.append((s / tau_b).logsumexp(dim=-2))
            else:
                log_sums.append(attention(s + c, tau_b).sum(dim=-2).log())
        log_sum = torch.stack(log_sums).logsumexp(dim=0)
        log_sum = torch.stack(all_gather(log_sum)).logsumexp(dim=0)  # over ranks
        c = c - tau_b * log_sum.unsqueeze(-2)
    return attention(S + c, tau_b)


def match(B: Tensor, log_A: Tensor) -> Tensor:
    """CE(b, a) = -<b, log a> of each row of B and A (Eq. 5).

    Args:
        B (Tensor): Targets, shape (..., M, C).
        log_A (Tensor): Logarithm of the attention, shape (..., M, C).

    Returns:
        Tensor: Cross entropies, shape (..., M).
    """
    return -(B * log_A).sum(dim=-1)
