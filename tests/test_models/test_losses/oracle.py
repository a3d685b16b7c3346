"""BAM's loss the obvious way: whole matrices, one product per pair of views, autograd.

Slow and large on purpose. The tests compare with it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def sinkhorn(kernel: Tensor, iters: int) -> Tensor:
    for _ in range(iters):
        kernel = kernel / kernel.sum(dim=0, keepdim=True)
        kernel = kernel / kernel.sum(dim=1, keepdim=True)
    return kernel


def mask(s: Tensor, n: int, positive_mask: str | None) -> Tensor:
    if positive_mask is None:
        return s
    image = torch.arange(max(s.shape)) % n
    positive = image[: s.shape[0], None] == image[None, : s.shape[1]]
    value = 0.0 if positive_mask == 'zero' else -torch.inf
    return s.masked_fill(positive, value)


def by_blocks(function, s: Tensor, n: int, per_block: bool) -> Tensor:
    """Apply to the whole matrix, or to every n x n block on its own."""
    if not per_block:
        return function(s)
    rows = [
        torch.cat([function(block) for block in row.split(n, dim=1)], dim=1)
        for row in s.split(n, dim=0)
    ]
    return torch.cat(rows, dim=0)


def bam_loss_oracle(
    z: Tensor,
    z_target: Tensor | None = None,
    *,
    num_views: int,
    num_target_views: int = 2,
    tau: float = 0.1,
    tau_b: float = 0.05,
    sinkhorn_iters: int = 3,
    positive_mask: str | None = 'exclude',
    balance_rows: str = 'all',
    top_k: int = 0,
    global_norm: bool = True,
    balanced: bool = True,
) -> Tensor:
    n = len(z) // num_views
    num_targets = num_target_views * n
    z = F.normalize(z, dim=-1)
    rows = z if z_target is None else F.normalize(z_target, dim=-1)
    columns = rows[:num_targets]
    per_block = not global_norm
    blocks = num_target_views if per_block else 1

    s = mask(z @ columns.T, n, positive_mask)
    log_a = by_blocks(lambda x: (x / tau).log_softmax(dim=1), s, n, per_block)
    log_a = log_a.masked_fill(s == -torch.inf, 0)  # they have no weight in b
    with torch.no_grad():
        if balance_rows == 'targets':
            rows = columns
        s_target = mask(rows @ columns.T, n, positive_mask)
        if balanced:
            b = by_blocks(
                lambda x: sinkhorn((x / tau_b).exp(), sinkhorn_iters),
                s_target,
                n,
                per_block,
            )
        else:
            b = by_blocks(lambda x: (x / tau).softmax(dim=1), s_target, n, per_block)
        b = b[:num_targets]
        if top_k:
            views = b.view(num_target_views, n, blocks, -1)
            kept = views.mean(dim=0).topk(min(top_k, views.shape[-1]), dim=-1).indices
            views = views * torch.zeros_like(views[0]).scatter(-1, kept, 1.0)
            b = (views / views.sum(dim=-1, keepdim=True)).view_as(b)

    total = z.new_zeros(())
    for t in range(num_target_views):
        for source in range(num_views):
            if source == t:
                continue
            b_t = b[t * n : (t + 1) * n]
            log_a_s = log_a[source * n : (source + 1) * n]
            total = total - (b_t * log_a_s).sum() / n / blocks
    return total / (num_target_views * (num_views - 1))
