"""The four steps of BAM's loss under the paper's names (Sec. 3): S, A, B and match.

There are n images on this rank and N on all ranks, with V views each (the paper's k).
Row ``v * n + i`` of a matrix is view v of image i. Columns are only the first T views,
the targets: column ``t * N + i`` is view t of image i. With T = V on one rank these are
the paper's square matrices. Balance needs all rows; the others treat each row alone.
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
    Z: Tensor, Z_cols: Tensor, positive: Tensor | None = None, value: float = EXCLUDED
) -> Tensor:
    """S (..., M, C): cosine similarities (Sec. 3.1), positive pairs masked (Eq. 3).

    Args:
        Z (Tensor): Latents of the rows, of length 1, shape (..., M, d).
        Z_cols (Tensor): Latents of the columns, of length 1, shape (..., C, d).
        positive (Tensor, optional): Which pairs are views of one image, i = j (mod n)
            in Eq. 3, shape (M, C) or broadcast to it. Defaults to None: no masking.
        value (float): Similarity that they get instead. Defaults to ``EXCLUDED``.
    """
    S = Z @ Z_cols.mT
    return S if positive is None else S.masked_fill_(positive, value)


def attention(S: Tensor, tau: float, log: bool = False) -> Tensor:
    """A (..., M, C): soft-max of each row of S at temperature tau (Eq. 1).

    Args:
        S (Tensor): Similarities, shape (..., M, C).
        tau (float): Temperature.
        log (bool): Whether to return log A, also where A is 0. Defaults to False.
    """
    return (S / tau).log_softmax(dim=-1) if log else (S / tau).softmax(dim=-1)


@torch.no_grad()
def balance(
    S: Tensor,
    tau_b: float,
    iters: int = 3,
    further_rows: Callable[[], Iterable[Tensor]] = lambda: (),
) -> Tensor:
    """B (..., M, C): the transport plan of Eq. 4, by Sinkhorn iterations (Sec. 3.3).

    Each iteration scales the columns of ``K = exp(S / tau_b)`` to equal sums, over the
    rows of all ranks, and then its rows to sum 1; columns first, as in the authors'
    release. To scale a column of K is to add a number to that column of S, and to scale
    the rows is the soft-max. So B is the attention of S + c at temperature tau_b, and
    only c (..., 1, C), one number for each column, has to be found.

    Args:
        S (Tensor): Similarities of this rank's rows, shape (..., M, C).
        tau_b (float): Temperature.
        iters (int): Number of iterations. Defaults to 3.
        further_rows (Callable): Function that yields matrices of similarities whose
            rows count in the sums of the columns but are not returned. It is called in
            each iteration, so that they need not be kept. Defaults to no such rows.
    """
    c = S.new_zeros(1)
    for i in range(iters):
        log_sums = []  # logarithms of the columns' sums, for each matrix of rows
        for s in chain([S], further_rows()):
            if i == 0:  # K as it is, by its logarithm because exp may overflow
                log_sums.append((s / tau_b).logsumexp(dim=-2))
            else:
                log_sums.append(attention(s + c, tau_b).sum(dim=-2).log())
        log_sum = torch.stack(log_sums).logsumexp(dim=0)
        log_sum = torch.stack(all_gather(log_sum)).logsumexp(dim=0)  # over ranks
        # To sum 1; any other sum would drop out in the soft-max that scales the rows.
        c = c - tau_b * log_sum.unsqueeze(-2)
    return attention(S + c, tau_b)


def match(B: Tensor, log_A: Tensor) -> Tensor:
    """CE(b, a) = -<b, log a> (..., M) of each row of B and of A (Eq. 5).

    Args:
        B (Tensor): Targets, shape (..., M, C).
        log_A (Tensor): Logarithm of the attention, shape (..., M, C).
    """
    return -(B * log_A).sum(dim=-1)
