"""B: the balanced attention, by Sinkhorn iterations (paper, Sec. 3.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from mmengine.dist import all_reduce
from torch import Tensor

from .attention import CPU_CHUNK, rows_at_once, rows_by_core

# exp() of the largest possible logit, 1 / tau_b, and sums of it must stay far from what
# a float32 (e**88) or a float64 (e**709) holds.
SMALLEST_TAU_FLOAT32 = 0.025
SMALLEST_TAU = 0.004

# Rows that are not asked for are needed again in every iteration. So many times the
# size of the result is spent on remembering them, the others are computed again.
REMEMBERED = 2.9


def balance(
    blocks: Sequence[Tensor],
    iters: int,
    num_more: int = 0,
    more_logits: Callable[[slice, Tensor], None] | None = None,
) -> None:
    """Balance ``2 ** block`` in place: columns to equal sums, then rows to sum 1.

    Column sums are taken over the rows of all ranks.

    Args:
        blocks (Sequence[Tensor]): Matrices that are balanced each on its own, all of
            one shape (M, C). They hold cosine similarities divided by
            ``tau_b * ln(2)``, and B afterwards.
        iters (int): Number of iterations. The last step of each is the rows'.
        num_more (int): Number of further rows of the only block, which count for the
            sums of the columns but are not asked for. Defaults to 0.
        more_logits (Callable, optional): Gets a slice of all rows, of which those of
            the block are the first, and writes their logarithms into the tensor that it
            gets. Defaults to None.
    """
    kernels = [rows_by_core(block.exp2_()) for block in blocks]
    more_kernels = _Kernels(blocks[0], num_more, more_logits)
    num_rows = len(blocks[0])
    rows, columns = blocks[0].new_ones(len(blocks), num_rows), None
    for _ in range(iters):
        sums = torch.stack([_sum_rows(k, scale) for k, scale in zip(kernels, rows)])
        for part in more_kernels:
            if columns is None:
                scale = part.new_ones(part.shape[:2].numel())
            else:
                scale = _sum_columns(part, columns[0]).reciprocal_()
            sums[0] += _sum_rows(part, scale)
        all_reduce(sums)
        # Not to 1: what more rows than columns add would grow with every iteration.
        columns = sums.reciprocal_().mul_(1 + num_more / num_rows)
        rows = [1 / _sum_columns(k, scale) for k, scale in zip(kernels, columns)]
    for block, row, column in zip(blocks, rows, columns):
        block.mul_(row.unsqueeze(1)).mul_(column)


def _sum_rows(kernel: Tensor, scale: Tensor) -> Tensor:
    """Sum over all rows (P, m, C), each times its scale."""
    if len(kernel) == 1:
        return kernel[0].T @ scale
    return torch.bmm(scale.view(len(kernel), 1, -1), kernel).sum(dim=(0, 1))


def _sum_columns(kernel: Tensor, scale: Tensor) -> Tensor:
    """Sum of every row of (P, m, C), its columns times their scales: (P * m,)."""
    if len(kernel) == 1:
        return kernel[0] @ scale
    scale = scale.expand(len(kernel), 1, -1)
    return torch.bmm(scale, kernel.transpose(1, 2)).flatten()


class _Kernels:
    """``2 ** logits`` of further rows part by part, for as often as it is asked for.

    As many as fit stay in memory, nearly all of them as one part. The others take turns
    in one place there, and are computed again when they are not in it.

    Args:
        block (Tensor): The rows that these are added to, shape (M, C).
        num_rows (int): As ``num_more`` of :func:`balance`.
        logits (Callable): As ``more_logits`` of :func:`balance`.
    """

    def __init__(self, block: Tensor, num_rows: int, logits: Callable | None) -> None:
        space = int(REMEMBERED * len(block))
        most = rows_at_once(block.shape[1], block.device)
        missing = max(0, num_rows - space)
        # They take turns with just enough others in the last part of the space.
        size = _even_size(missing, max(1, min(most, space)))
        turns = math.ceil(missing / size) + 1 if missing else 0
        kept = max(0, num_rows - turns * size)
        memory = block.new_empty(min(kept + size, num_rows), block.shape[1])
        self.first, self.logits = len(block), logits
        for part in _cut(0, kept, _even_size(kept, most)):
            self._compute(part, memory[part])
        # One part for all, and one for the few that cores cannot share.
        together = _cut(0, kept, kept // 16 * 16 or 16)
        self.kept = [rows_by_core(memory[part]) for part in together]
        self.taking_turns = _cut(kept, num_rows, size)
        self.place = memory[kept:]
        self.there: slice | None = None

    def __iter__(self) -> Iterator[Tensor]:
        yield from self.kept
        for part in self.taking_turns:
            kernel = self.place[: part.stop - part.start]
            if self.there != part:
                self._compute(part, kernel)
                self.there = part
            yield rows_by_core(kernel)
        # Back and forth: the last part is still there when it comes first.
        self.taking_turns = self.taking_turns[::-1]

    def _compute(self, part: slice, kernel: Tensor) -> None:
        self.logits(slice(self.first + part.start, self.first + part.stop), kernel)
        kernel.exp2_()


def _even_size(total: int, most: int) -> int:
    """Size of the fewest parts of at most ``most`` that make ``total``.

    A multiple of 16 if possible, so that cores can share them. The last may be smaller.
    """
    size = math.ceil(total / max(1, math.ceil(total / most)))
    return max(1, min(most, 16 * math.ceil(size / 16)))


def _cut(start: int, stop: int, size: int) -> list[slice]:
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]


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
        total -= part.clamp_min(tiny).log_().mul_(part).sum()
    return total / b.shape[:3].numel()
