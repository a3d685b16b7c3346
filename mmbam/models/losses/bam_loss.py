"""BAM's loss as a module: latents in, scalar out."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from mmengine.dist import all_gather, get_rank, get_world_size
from torch import Tensor, nn

from mmbam.registry import MODELS

from .attention import (
    EXCLUDED,
    LN_2,
    POSITIVE_MASKS,
    mask_positives,
    rows_by_core,
)
from .balance import SMALLEST_TAU, SMALLEST_TAU_FLOAT32, balance, entropy, keep_top_k
from .matching import MatchAttention

BALANCE_ROWS = ('targets', 'all')


@MODELS.register_module()
class BAMLoss(nn.Module):
    """Matches the attention of every view to the balanced attention of another.

    From `Unsupervised Representation Learning by Balanced Self Attention Matching
    <https://arxiv.org/abs/2408.02014>`_ (ECCV 2024). Works in any training loop. Inside
    a process group the batch is that of all ranks together, whatever each of them
    holds, and the mean of the ranks' losses is the loss of that batch.

    Args:
        num_views (int): V, views of each image.
        num_target_views (int): T, the first of them serve as targets. Defaults to 2.
        tau (float): Temperature of the sources' soft-max. Defaults to 0.1.
        tau_b (float): Temperature of the balanced targets. It must be lower than
            ``tau`` by a margin: training collapses from 0.075 on for ResNet and 0.1
            for ViT (paper, App. F). May be set during training. Defaults to 0.05.
        sinkhorn_iters (int): Iterations of balancing. Defaults to 3.
        positive_mask (str | None): What becomes of pairs of views of one image, before
            soft-max and balancing. ``'exclude'``: they get probability 0, as in the
            authors' release; ``'zero'``: their similarity becomes 0 (Eq. 3 read
            literally); None: they stay. Defaults to ``'exclude'``.
        balance_rows (str): Which rows are balanced. ``'targets'``: those of the target
            views, the paper's square matrix; ``'all'``: those of all views, as in the
            authors' release, for which a teacher must see all views. Defaults to
            ``'targets'``.
        top_k (int): Keep only that many columns of the targets, 0 for all. Defaults
            to 0.
        global_norm (bool): Normalise over all target views at once. If False, each
            pair of views is a matrix of its own. Defaults to True.
        balanced (bool): If False, the targets are the soft-max itself at ``tau``,
            which collapses (Table 1). Defaults to True.

    Attributes:
        stats (dict[str, Tensor]): ``entropy_a`` and ``entropy_b`` of the last call, the
            mean entropies of the rows of A and B in nats (paper, Fig. 3).
    """

    def __init__(
        self,
        num_views: int,
        num_target_views: int = 2,
        tau: float = 0.1,
        tau_b: float = 0.05,
        sinkhorn_iters: int = 3,
        positive_mask: str | None = 'exclude',
        balance_rows: str = 'targets',
        top_k: int = 0,
        global_norm: bool = True,
        balanced: bool = True,
    ) -> None:
        super().__init__()
        if num_views < 2:
            raise ValueError(f'num_views must be at least 2, but got {num_views}.')
        if not 1 <= num_target_views <= num_views:
            raise ValueError(
                f'num_target_views must lie in 1..num_views ({num_views}), but got '
                f'{num_target_views}.'
            )
        if not tau > 0:
            raise ValueError(f'tau must be positive, but got {tau}.')
        if not tau_b >= SMALLEST_TAU:
            raise ValueError(f'tau_b must be at least {SMALLEST_TAU}, but got {tau_b}.')
        if sinkhorn_iters < 1:
            raise ValueError(
                f'sinkhorn_iters must be at least 1, but got {sinkhorn_iters}; to do '
                'without balancing set balanced=False.'
            )
        if positive_mask not in POSITIVE_MASKS:
            raise ValueError(
                f'positive_mask must be one of {POSITIVE_MASKS}, but got '
                f'{positive_mask!r}.'
            )
        if balance_rows not in BALANCE_ROWS:
            raise ValueError(
                f'balance_rows must be one of {BALANCE_ROWS}, but got {balance_rows!r}.'
            )
        if top_k < 0:
            raise ValueError(f'top_k must be 0 (off) or positive, but got {top_k}.')
        self.num_views = num_views
        self.num_target_views = num_target_views
        self.tau = tau
        self.tau_b = tau_b
        self.sinkhorn_iters = sinkhorn_iters
        self.positive_mask = positive_mask
        self.balance_rows = balance_rows
        self.top_k = top_k
        self.global_norm = global_norm
        self.balanced = balanced
        self.stats: dict[str, Tensor] = {}

    @property
    def num_teacher_views(self) -> int:
        """Number of views, from the first on, that a teacher must see."""
        return self.num_views if self.balance_rows == 'all' else self.num_target_views

    # Hand-written gradient and collectives: nothing for a compiler to see.
    @torch.compiler.disable
    def forward(self, z: Tensor, z_target: Tensor | None = None) -> Tensor:
        """Compute the loss of this rank's images.

        Args:
            z (Tensor): Latents of all views, ordered view by view, shape (V * n, d),
                not necessarily normalised.
            z_target (Tensor, optional): The teacher's latents of the target views, or
                of all views for ``balance_rows='all'``, in the same order. Without it
                the latents themselves are the targets, and gradients flow through
                both sides. Defaults to None.

        Returns:
            Tensor: The loss, a scalar.
        """
        self._check(z, z_target)
        with torch.autocast(z.device.type, enabled=False):
            z = _by_view(z, self.num_views)
            if z_target is None:
                rows = z.detach()[: self.num_teacher_views]
            else:
                rows = _by_view(z_target.detach(), self.num_teacher_views)
                rows = rows.to(z.dtype)
            own_targets = F.normalize(rows[: self.num_target_views], dim=-1)
            targets, first_column = _gather_images(own_targets)
            num_images = targets.shape[1]
            if self.positive_mask is not None and num_images < 2:
                raise ValueError(
                    'BAMLoss with a positive mask needs at least 2 images over all '
                    f'ranks, but got {num_images}: nothing is left to compare with.'
                )
            b = self._balanced_attention(rows, targets, first_column)
            entropy_b = entropy(b)
            num_pairs = self.num_target_views * (self.num_views - 1)
            loss, entropy_a = MatchAttention.apply(
                z,
                targets,
                b,
                self.tau,
                self.positive_mask,
                first_column,
                get_world_size() / (num_images * num_pairs),
                z_target is None,
            )
            self.stats = dict(entropy_a=entropy_a, entropy_b=entropy_b)
        return loss

    def _check(self, z: Tensor, z_target: Tensor | None) -> None:
        if z.dim() != 2 or len(z) == 0 or len(z) % self.num_views:
            raise ValueError(
                f'z must have shape (num_views * n, d) with num_views = '
                f'{self.num_views}, but got {tuple(z.shape)}.'
            )
        if z_target is not None:
            expected = (len(z) // self.num_views * self.num_teacher_views, z.shape[1])
            if z_target.shape != expected:
                raise ValueError(
                    f'z_target must hold {self.num_teacher_views} views of the same '
                    f'images and width as z, shape {expected}, but got '
                    f'{tuple(z_target.shape)}.'
                )

    @torch.no_grad()
    def _balanced_attention(
        self, rows: Tensor, targets: Tensor, first_column: int
    ) -> Tensor:
        """B of this rank's target views, shape (T, n, G, C)."""
        num_targets, _, dim = targets.shape
        groups = 1 if self.global_norm else num_targets
        columns = targets.reshape(-1, dim)
        tau = self.tau_b * LN_2 if self.balanced else self.tau
        double = self.balanced and self.tau_b < SMALLEST_TAU_FLOAT32

        n = rows.shape[1]
        rows = rows.flatten(0, 1)
        scales = 1 / (rows.norm(dim=-1, keepdim=True).clamp_min_(1e-12) * tau)

        def logits(part: slice, out: Tensor) -> None:
            s = torch.empty_like(out, dtype=columns.dtype) if double else out
            blocks = rows_by_core(rows[part] * scales[part])
            torch.bmm(
                blocks, columns.T.expand(len(blocks), -1, -1), out=rows_by_core(s)
            )
            if self.positive_mask is not None:
                value = EXCLUDED if self.positive_mask == 'exclude' else 0.0
                mask_positives(s, part.start, n, first_column, num_targets, value)
            if double:
                out.copy_(s)

        dtype = torch.float64 if double else columns.dtype
        s = columns.new_empty(num_targets * n, len(columns), dtype=dtype)
        logits(slice(0, len(s)), s)
        b = s.view(num_targets, n, groups, -1)
        if not self.balanced:
            b = b.softmax(dim=-1)
        elif not self.global_norm:
            # A pair of views that is balanced on its own knows of no other rows.
            balance(
                [block for row in b for block in row.unbind(1)], self.sinkhorn_iters
            )
        else:
            balance([s], self.sinkhorn_iters, len(rows) - len(s), logits)
        b = b.to(columns.dtype)
        return keep_top_k(b, self.top_k) if self.top_k else b


def _by_view(z: Tensor, num_views: int) -> Tensor:
    if z.dtype != torch.float64:
        z = z.float()  # similarities of half floats are too coarse for exp()
    return z.view(num_views, -1, z.shape[-1])


def _gather_images(z: Tensor) -> tuple[Tensor, int]:
    """Join the images of all ranks: (T, n, d) to (T, N, d), view by view.

    Ranks may hold different numbers of images.

    Returns:
        tuple[Tensor, int]: The latents, and where this rank's images begin.
    """
    if get_world_size() == 1:
        return z, 0
    sizes = [int(n) for n in all_gather(torch.tensor(z.shape[1], device=z.device))]
    padded = F.pad(z, (0, 0, 0, max(sizes) - z.shape[1])).contiguous()
    parts = [p[:, :n] for p, n in zip(all_gather(padded), sizes)]
    return torch.cat(parts, dim=1), sum(sizes[: get_rank()])
