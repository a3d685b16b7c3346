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
REMEMBERED = 2.85


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
    kernels = [block.exp2_() for block in blocks]
    more_kernels = _Kernels(kernels[0], num_more, more_logits)
    num_rows = len(kernels[0])
    rows, columns = kernels[0].new_ones(len(kernels), num_rows), None
    for _ in range(iters):
        sums = torch.stack([_sum_rows(k, scale) for k, scale in zip(kernels, rows)])
        count = num_rows
        for part in more_kernels:
            scale = part.new_ones(len(part))
            if columns is not None:
                scale = _sum_columns(part, columns[0]).reciprocal_()
            sums[0] += _sum_rows(part, scale)
            count += len(part)
        all_reduce(sums)
        # Not to 1: what more rows than columns add would grow with every iteration.
        columns = sums.reciprocal_().mul_(count / num_rows)
        rows = [1 / _sum_columns(k, scale) for k, scale in zip(kernels, columns)]
    for kernel, row, column in zip(kernels, rows, columns):
        kernel.mul_(row.unsqueeze(1)).mul_(column)


def _sum_rows(kernel: Tensor, scale: Tensor) -> Tensor:
    """``kernel.T @ scale``."""
    blocks = rows_by_core(kernel)
    if len(blocks) == 1:
        return kernel.T @ scale
    return torch.bmm(scale.view(len(blocks), 1, -1), blocks).sum(dim=(0, 1))


def _sum_columns(kernel: Tensor, scale: Tensor) -> Tensor:
    """``kernel @ scale``."""
    blocks = rows_by_core(kernel)
    if len(blocks) == 1:
        return kernel @ scale
    scale = scale.expand(len(blocks), 1, -1)
    return torch.bmm(scale, blocks.transpose(1, 2)).flatten()


class _Kernels:
    """``2 ** logits`` of further rows part by part, for as often as it is asked for.

    As many as fit stay in memory. The last parts share one place there, and are
    computed again when they are not in it.

    Args:
        block (Tensor): The rows that these are added to, shape (M, C).
        num_rows (int): As ``num_more`` of :func:`balance`.
        logits (Callable): As ``more_logits`` of :func:`balance`.
    """

    def __init__(self, block: Tensor, num_rows: int, logits: Callable | None) -> None:
        space = int(REMEMBERED * len(block))
        # Little is done with them, so there may be more at once than in the matching.
        most = 2 * rows_at_once(block.shape[1], block.device)
        missing = max(0, num_rows - space)
        # They take turns with just enough others in the last part of the space.
        size = _even_size(missing, max(1, min(most, space)))
        turns = math.ceil(missing / size) + 1 if missing else 0
        kept = max(0, num_rows - turns * size)
        parts = _cut(0, kept, _even_size(kept, most)) + _cut(kept, num_rows, size)
        memory = block.new_empty(min(kept + size, num_rows), block.shape[1])
        self.starts = [min(part.start, kept) for part in parts]
        self.places = [
            memory[start : start + part.stop - part.start]
            for start, part in zip(self.starts, parts)
        ]
        first = len(block)
        self.parts = [slice(first + part.start, first + part.stop) for part in parts]
        self.logits = logits
        self.there: dict[int, int] = {}  # where something starts, and what it is
        self.order = range(len(parts))

    def __iter__(self) -> Iterator[Tensor]:
        # Back and forth: the last part is still there when it comes first.
        order, self.order = self.order, self.order[::-1]
        for index in order:
            kernel, start = self.places[index], self.starts[index]
            if self.there.get(start) != index:
                self.logits(self.parts[index], kernel)
                kernel.exp2_()
                self.there[start] = index
            yield kernel


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
