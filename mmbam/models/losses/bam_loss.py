"""BAM's loss as a module: latents in, scalar out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.distributed.nn.functional as dist_nn
import torch.nn.functional as F
from mmengine.dist import all_gather, get_rank, get_world_size
from torch import Tensor, nn

from mmbam.registry import MODELS
from mmbam.utils.autograd import GradientAtOnce
from mmbam.utils.errors import InputError

from .functional import EXCLUDED, attention, balance, match, similarity

MASKS, ROWS = ('exclude', 'zero', None), ('targets', 'all')


@MODELS.register_module()
class BAMLoss(nn.Module):
    """Matches the attention of every view to the balanced attention of another.

    From `Unsupervised Representation Learning by Balanced Self Attention Matching
    <https://arxiv.org/abs/2408.02014>`_ (ECCV 2024). Works in any training loop. It is
    Eq. 5 averaged over images and pairs of views. Its mean over ranks, which is what
    DistributedDataParallel minimizes, is the loss of all their images as one batch.

    Args:
        num_views (int): Number V of views of each image.
        num_target_views (int): Number T of first views used as targets. Defaults to 2.
        tau (float): Temperature of the sources' soft-max. Defaults to 0.1.
        tau_b (float): Temperature of the balanced targets. It must be lower than
            ``tau`` by a margin: with 0.1, training collapses from 0.075 on for ResNet
            and 0.1 for ViT (App. F). May be set during training. Defaults to 0.05.
        sinkhorn_iters (int): Number of iterations of balancing. Defaults to 3.
        positive_mask (str | None): Treatment of pairs of views of one image, before
            soft-max and balancing. ``'exclude'``: they get probability 0, as in the
            authors' release; ``'zero'``: their similarity becomes 0 (Eq. 3 read
            literally); None: they stay. Defaults to ``'exclude'``.
        balance_rows (str): Rows that are balanced. ``'targets'``: those of the target
            views, a square matrix as in the paper; ``'all'``: of all views, as in the
            release, so that a teacher must see all views. Defaults to ``'targets'``.
        top_k (int): Number of columns of B kept per image, 0 for all. Defaults to 0.
        global_norm (bool): Whether to normalize over all target views at once. If
            False, each pair of views is a matrix of its own. Defaults to True.
        balanced (bool): Whether to balance the targets. If False, they are A itself
            without gradient (Eq. 2), which collapses (Table 1). Defaults to True.

    Attributes:
        stats (dict[str, Tensor]): ``entropy_a`` and ``entropy_b`` of the last call, the
            mean entropies of this rank's rows of A and B in nats (paper, Fig. 3).
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
        self.num_views, self.num_target_views = num_views, num_target_views
        self.tau, self.tau_b, self.sinkhorn_iters = tau, tau_b, sinkhorn_iters
        self.positive_mask, self.balance_rows = positive_mask, balance_rows
        self.top_k, self.global_norm, self.balanced = top_k, global_norm, balanced
        self.stats: dict[str, Tensor] = {}
        for name, allowed, rule in (
            ('num_views', num_views >= 2, 'at least 2'),
            ('num_target_views', 1 <= num_target_views <= num_views, f'1..{num_views}'),
            ('tau', 0 < tau < math.inf, 'positive and finite'),
            ('tau_b', 0 < tau_b < math.inf, 'positive and finite'),
            ('sinkhorn_iters', sinkhorn_iters >= 1, 'at least 1 (or balanced=False)'),
            ('positive_mask', positive_mask in MASKS, f'one of {MASKS}'),
            ('balance_rows', balance_rows in ROWS, f'one of {ROWS}'),
            ('top_k', top_k >= 0, '0 (off) or positive'),
        ):
            if not allowed:
                got = getattr(self, name)
                raise ValueError(f'{name} must be {rule}, but got {got!r}.')

    @property
    def num_teacher_views(self) -> int:
        """Number of views, from the first on, that a teacher must see."""
        all_rows = self.balance_rows == 'all' and self.balanced and self.global_norm
        return self.num_views if all_rows else self.num_target_views

    @torch.compiler.disable  # collectives and an inner backward pass
    def forward(self, z: Tensor, z_target: Tensor | None = None) -> Tensor:
        """Compute this rank's loss, a scalar; the mean over ranks is that of the batch.

        Args:
            z (Tensor): Latents of any length, ordered view by view, shape (V * n, d).
            z_target (Tensor, optional): The teacher's latents of the first
                ``num_teacher_views`` views, in the same order. Defaults to None: the
                first views of ``z`` take their place, with gradients as columns of S.
        """
        V, T = self.num_views, self.num_target_views
        Z = Z_m = _by_view(z, V, 'z')
        if z_target is not None:  # App. C: columns, and both sides of B, are Z_m
            Z_m = _by_view(z_target.detach(), self.num_teacher_views, 'z_target').to(Z)
            if Z_m.shape[1:] != Z.shape[1:]:
                raise InputError(
                    f'z_target must hold {len(Z_m)} views of the same images and width '
                    f'as z, {tuple(z.shape)}, but got {tuple(z_target.shape)}.'
                )
        with torch.autocast(z.device.type, enabled=False):
            Z_cols, row_images, col_images = _gather_latents(Z_m[:T])  # of length 1
            n, N = len(row_images), len(col_images)
            if self.positive_mask is not None and N < 2:
                raise InputError(f'positive_mask needs at least 2 images, but got {N}.')
            if self.global_norm:  # one block of columns for all target views
                Z_cols, col_images = Z_cols.flatten(0, 1), col_images.repeat(T)
            same_image = row_images[:, None] == col_images  # i = j (mod n) in Eq. 3
            positive = same_image if self.positive_mask else None
            value = 0.0 if self.positive_mask == 'zero' else EXCLUDED

            def compare(rows: Tensor, columns: Tensor) -> Tensor:
                return similarity(F.normalize(rows, dim=-1), columns, positive, value)

            B = self._balanced_targets(Z_m, partial(compare, columns=Z_cols))
            B_sum = B.sum(dim=0)

            def match_views(columns: Tensor, *views: Tensor) -> Iterator[tuple]:
                for v, rows in enumerate(views):
                    if T == 1 and v == 0:  # it has no other target view to match
                        continue
                    log_A = attention(compare(rows, columns), self.tau, log=True)
                    # CE is linear in b, so that one product with the sum of all b of
                    # the other target views is the sum of their cross entropies.
                    loss = match(B_sum - B[v] if v < T else B_sum, log_A).mean()
                    log_A = log_A.detach()
                    yield loss, match(log_A.exp(), log_A).mean()  # entropy: CE(a, a)

            # Only one view's S and A exist at a time: its gradient is taken at once.
            loss, entropy_a = GradientAtOnce.apply(match_views, Z_cols, *Z.unbind())
            entropy_b = match(B, B.clamp(min=torch.finfo(B.dtype).tiny).log()).mean()
            entropy_a /= V if T > 1 else V - 1  # number of views that were matched
            self.stats = dict(entropy_a=entropy_a, entropy_b=entropy_b)
            # T * (V - 1) pairs of a target and another view. A rank with more images
            # weighs more in the mean over ranks, so that it is a mean over images.
            return loss / (T * (V - 1)) * (n * get_world_size() / N)

    @torch.no_grad()
    def _balanced_targets(self, Z_m: Tensor, compare: Callable) -> Tensor:
        """B of the target views: (T, n, T * N), or (T, T, n, N) without global norm."""
        T = self.num_target_views
        S = compare(Z_m[:T] if self.global_norm else Z_m[:T, None])
        if not self.balanced:
            B = attention(S, self.tau)
        elif not self.global_norm:
            B = balance(S, self.tau_b, self.sinkhorn_iters)
        else:
            further = partial(map, compare, Z_m[T : self.num_teacher_views])
            B = balance(S.flatten(0, 1), self.tau_b, self.sinkhorn_iters, further)
            B = B.unflatten(0, (T, -1))
        return _keep_top_k(B, self.top_k) if self.top_k else B


def _by_view(z: Tensor, num_views: int, name: str) -> Tensor:
    if z.dim() != 2 or len(z) == 0 or len(z) % num_views:
        raise ValueError(
            f'{name} must have shape (num_views * n, d) with num_views = {num_views}, '
            f'but got {tuple(z.shape)}.'
        )
    z = z if z.dtype == torch.float64 else z.float()  # half floats are too coarse
    return z.unflatten(0, (num_views, -1))


def _gather_latents(Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Latents of length 1 (T, N, d) of all ranks' images, from this rank's (T, n, d),
    the indices (n,) of this rank's images among them, and the indices (N,) of all."""
    Z, n = F.normalize(Z, dim=-1), Z.shape[1]
    before, N = 0, n
    if get_world_size() > 1:
        sizes = [int(size) for size in all_gather(torch.tensor(n, device=Z.device))]
        before, N = sum(sizes[: get_rank()]), sum(sizes)
        # A gather for any n: each rank adds its images to the others' zeros. Backward
        # it sums the gradients of all ranks, so that columns teach their own rank too.
        Z = dist_nn.all_reduce(F.pad(Z, (0, 0, before, N - before - n)))
    all_images = torch.arange(N, device=Z.device)
    return Z, all_images[before : before + n], all_images


def _keep_top_k(B: Tensor, k: int) -> Tensor:
    """Keep the k columns that are largest on average over an image's T target views, as
    the authors' release does, and scale the rows to sum 1 again."""
    if k >= B.shape[-1]:
        return B
    average = B.mean(dim=0)
    kept = torch.zeros_like(average).scatter_(-1, average.topk(k).indices, 1.0)
    B = B * kept
    # A view may have nothing at all in the columns that its sister views chose.
    B = torch.where(B.sum(dim=-1, keepdim=True) == 0, average * kept, B)
    return B / B.sum(dim=-1, keepdim=True)
