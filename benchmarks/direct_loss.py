"""BAM's loss the direct way, to compare with: whole matrices and autograd."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def direct_loss(
    z: Tensor,
    z_target: Tensor,
    num_views: int,
    num_target_views: int = 2,
    balance_rows: str = 'all',
    tau: float = 0.1,
    tau_b: float = 0.05,
) -> Tensor:
    """Compute BAM's loss with a teacher on one rank.

    Args:
        z (Tensor): Latents, shape (V * n, d).
        z_target (Tensor): Latents of the teacher.
        num_views (int): Number V of views.
        num_target_views (int): Number T of target views. Defaults to 2.
        balance_rows (str): ``'all'`` or ``'targets'``. Defaults to ``'all'``.
        tau (float): Temperature of A. Defaults to 0.1.
        tau_b (float): Temperature of B. Defaults to 0.05.
    """
    n = len(z) // num_views
    num_targets = num_target_views * n
    z, rows = F.normalize(z, dim=-1), F.normalize(z_target, dim=-1)
    columns = rows[:num_targets]
    s = _mask(z @ columns.T, n)
    log_a = (s / tau).log_softmax(dim=1)
    log_a = log_a.masked_fill(s == -torch.inf, 0)  # they have no weight in b
    with torch.no_grad():
        b = _mask((rows if balance_rows == 'all' else columns) @ columns.T, n)
        b = (b / tau_b).exp()
        for _ in range(3):
            b = b / b.sum(dim=0, keepdim=True)
            b = b / b.sum(dim=1, keepdim=True)
    total = z.new_zeros(())
    for t in range(num_target_views):
        for v in range(num_views):
            if v != t:
                b_t, log_a_v = b[t * n : (t + 1) * n], log_a[v * n : (v + 1) * n]
                total = total - (b_t * log_a_v).sum() / n
    return total / (num_target_views * (num_views - 1))


def _mask(s: Tensor, n: int) -> Tensor:
    image = torch.arange(max(s.shape), device=s.device) % n
    positive = image[: s.shape[0], None] == image[None, : s.shape[1]]
    return s.masked_fill(positive, -torch.inf)
