"""B: the balanced attention, by Sinkhorn iterations (paper, Sec. 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from mmengine.dist import all_reduce
from torch import Tensor

from .attention import CPU_CHUNK

# exp() of the largest possible logit, 1 / tau_b, and sums of it must stay far from what
# a float32 (e**88) or a float64 (e**709) holds.
SMALLEST_TAU_FLOAT32 = 0.025
SMALLEST_TAU = 0.004

# Rows that are not asked for are needed again in every iteration. So many times the
# size of the result is spent on remembering them, the others are computed again.
REMEMBERED = 2.25


def balance(
    logits: Tensor,
    iters: int,
    more_rows: Sequence[Callable[[Tensor | None], Tensor]] = (),
) -> Tensor:
    """Balance ``exp(logits)``: columns to equal sums, then rows to sum 1.

    Column sums are taken over the rows of all ranks.

    Args:
        logits (Tensor): Cosine similarities divided by tau_b, of shape (R, M, G, C): R
            groups of M rows against G groups of C columns; each of the R x G blocks is
            balanced on its own. It is overwritten.
        iters (int): Number of iterations. The last step of each is the rows'.
        more_rows (Sequence[Callable]): Each computes the logits of further rows that
            count for the sums of the columns but are not asked for, of shape
            (R, m, G, C); into the tensor that it gets, unless that is None. Defaults
            to no further rows.

    Returns:
        Tensor: B, of the shape of ``logits``, whose rows sum to 1 in every block.
    """
    kernel = logits.exp_()
    remembered: dict[int, Tensor] = {}
    space = REMEMBERED * kernel.numel()
    scratch = None  # fresh memory for every part would cost more than its product

    def kernel_of_more(index: int) -> Tensor:
        nonlocal space, scratch
        if index in remembered:
            return remembered[index]
        part = more_rows[index](scratch).exp_()
        if part.numel() <= space:
            space -= part.numel()
            remembered[index] = part
        else:
            scratch = part
        return part

    rows, columns = kernel.new_ones(kernel.shape[:3]), None
    for _ in range(iters):
        sums, num_rows = _column_sums(kernel, rows), kernel.shape[1]
        for part in map(kernel_of_more, range(len(more_rows))):
            sums += _column_sums(part, _scale_rows(part, columns))
            num_rows += part.shape[1]
        all_reduce(sums)
        # Not to 1: what more rows than columns add would grow with every iteration.
        columns = sums.reciprocal_().mul_(num_rows / kernel.shape[1])
        rows = _scale_rows(kernel, columns)
    return kernel.mul_(rows.unsqueeze(-1)).mul_(columns.unsqueeze(1))


def _column_sums(kernel: Tensor, rows: Tensor) -> Tensor:
    return torch.einsum('rmgc,rmg->rgc', kernel, rows)


def _scale_rows(kernel: Tensor, columns: Tensor | None) -> Tensor:
    if columns is None:
        return kernel.new_ones(kernel.shape[:3])
    return torch.einsum('rmgc,rgc->rmg', kernel, columns).reciprocal_()


def keep_top_k(b: Tensor, k: int) -> Tensor:
    """Keep the columns that matter most to an image, and renormalise the rows.

    Args:
        b (Tensor): Rows of the target views of the same images, shape (T, n, G, C).
        k (int): In each of the G blocks, the k columns that are largest on average
            over the T views stay; all of them if there are not more than k.

    Returns:
        Tensor: The sparser B, of the shape of ``b``, whose rows sum to 1.
    """
    if k >= b.shape[-1]:
        return b
    average = b.mean(dim=0)
    kept = average.topk(k, dim=-1).indices
    mask = torch.zeros_like(average).scatter_(-1, kept, 1.0)
    b = b * mask
    # A row may have nothing at all in the columns that its sister views chose.
    empty = b.sum(dim=-1, keepdim=True) == 0
    b = torch.where(empty, average * mask, b)
    return b / b.sum(dim=-1, keepdim=True)


def entropy(b: Tensor) -> Tensor:
    """Mean entropy of the rows of ``b`` (T, n, G, C) in nats, a scalar."""
    tiny = torch.finfo(b.dtype).tiny
    total = b.new_zeros(())
    for part in b.flatten().split(CPU_CHUNK):
        total -= torch.dot(part, part.clamp_min(tiny).log_())
    return total / b.shape[:3].numel()
