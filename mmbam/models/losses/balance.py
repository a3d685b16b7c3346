"""B: the balanced attention, by Sinkhorn iterations (paper, Sec. 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

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
REMEMBERED = 2.75


def balance(
    blocks: Sequence[Tensor],
    iters: int,
    more_rows: Sequence[tuple[int, Callable[[Tensor], None]]] = (),
) -> None:
    """Balance ``2 ** block`` in place: columns to equal sums, then rows to sum 1.

    Column sums are taken over the rows of all ranks.

    Args:
        blocks (Sequence[Tensor]): Matrices that are balanced each on its own, all of
            one shape (M, C). They hold cosine similarities divided by
            ``tau_b * ln(2)``, and B afterwards.
        iters (int): Number of iterations. The last step of each is the rows'.
        more_rows (Sequence[tuple[int, Callable]]): Further rows of the only block,
            which count for the sums of the columns but are not asked for. How many
            they are, and a function that writes their logarithms into the tensor that
            it gets. Defaults to no further rows.
    """
    kernels = [block.exp2_() for block in blocks]
    more_kernels = _Kernels(more_rows, kernels[0])
    num_rows = len(kernels[0])
    rows, columns = kernels[0].new_ones(len(kernels), num_rows), None
    for _ in range(iters):
        sums = torch.stack([k.T @ scale for k, scale in zip(kernels, rows)])
        count = num_rows
        for part in more_kernels:
            sums[0].addmv_(part.T, _row_scales(part, columns))
            count += len(part)
        all_reduce(sums)
        # Not to 1: what more rows than columns add would grow with every iteration.
        columns = sums.reciprocal_().mul_(count / num_rows)
        rows = [1 / (k @ scale) for k, scale in zip(kernels, columns)]
    for kernel, row, column in zip(kernels, rows, columns):
        kernel.mul_(row.unsqueeze(1)).mul_(column)


def _row_scales(part: Tensor, columns: Tensor | None) -> Tensor:
    if columns is None:
        return part.new_ones(len(part))
    return torch.mv(part, columns[0]).reciprocal_()


class _Kernels:
    """``2 ** logits`` part by part, for as often as it is asked for.

    The last parts share one place in memory and are computed again when they are not
    there. All others stay.

    Args:
        parts (Sequence[tuple[int, Callable]]): As ``more_rows`` of :func:`balance`.
        block (Tensor): The rows that these are added to, shape (M, C).
    """

    def __init__(self, parts: Sequence[tuple[int, Callable]], block: Tensor) -> None:
        sizes = [size for size, _ in parts]
        space = REMEMBERED * len(block)
        starts = [sum(sizes[:index]) for index in range(len(parts))]
        # The last place that is large enough for all parts from there on.
        fitting = [
            start
            for index, start in enumerate(starts)
            if start + max(sizes[index:]) <= space
        ]
        starts = [min(start, max(fitting, default=0)) for start in starts]
        ends = [start + size for start, size in zip(starts, sizes)]
        memory = block.new_empty(max(ends, default=0), block.shape[1])
        self.places = [memory[start:end] for start, end in zip(starts, ends)]
        self.parts = [compute for _, compute in parts]
        self.starts = starts
        self.there: dict[int, int] = {}  # where something starts, and what it is
        self.order = range(len(parts))

    def __iter__(self) -> Iterator[Tensor]:
        # Back and forth: the last part is still there when it comes first.
        order, self.order = self.order, self.order[::-1]
        for index in order:
            kernel, start = self.places[index], self.starts[index]
            if self.there.get(start) != index:
                self.parts[index](kernel)
                kernel.exp2_()
                self.there[start] = index
            yield kernel


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
