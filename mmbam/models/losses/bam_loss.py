"""BAM's loss as a module: latents in, scalar out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed.nn.functional as dist_nn
import torch.nn.functional as F
from mmengine.dist import all_gather, get_rank, get_world_size
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmbam.registry import MODELS

from .functional import attention, balance, match, similarity

POSITIVE_MASKS = ('exclude', 'zero', None)
BALANCE_ROWS = ('targets', 'all')


@MODELS.register_module()
class BAMLoss(nn.Module):
    """Matches the attention of every view to the balanced attention of another.

    From `Unsupervised Representation Learning by Balanced Self Attention Matching
    <https://arxiv.org/abs/2408.02014>`_ (ECCV 2024). Works in any training loop. Inside
    a process group the batch is that of all ranks together, which may hold different
    numbers of images, and the mean of the ranks' losses is the loss of that batch.

    Args:
        num_views (int): Number V of views of each image.
        num_target_views (int): Number T of views that serve as targets, the first ones.
            Defaults to 2.
        tau (float): Temperature of the sources' soft-max. Defaults to 0.1.
        tau_b (float): Temperature of the balanced targets. It must be lower than
            ``tau`` by a margin: training collapses from 0.075 on for ResNet and 0.1
            for ViT (paper, App. F). May be set during training. Defaults to 0.05.
        sinkhorn_iters (int): Number of iterations of balancing. Defaults to 3.
        positive_mask (str | None): Treatment of pairs of views of one image, before
            soft-max and balancing. ``'exclude'``: they get probability 0, as in the
            authors' release; ``'zero'``: their similarity becomes 0 (Eq. 3 read
            literally); None: they stay. Defaults to ``'exclude'``.
        balance_rows (str): Rows that are balanced. ``'targets'``: those of the target
            views, the paper's square matrix; ``'all'``: those of all views, as in the
            authors' release, for which a teacher must see all views. Defaults to
            ``'targets'``.
        top_k (int): Number of columns of the targets to keep for each image, 0 for all.
            Defaults to 0.
        global_norm (bool): Whether to normalise over all target views at once. If
            False, each pair of views is a matrix of its own. Defaults to True.
        balanced (bool): Whether to balance the targets. If False, they are the soft-max
            itself at ``tau``, which collapses (Table 1). Defaults to True.

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
        for allowed, rule, value in (
            (num_views >= 2, 'num_views must be at least 2', num_views),
            (
                1 <= num_target_views <= num_views,
                f'num_target_views must lie in 1..num_views ({num_views})',
                num_target_views,
            ),
            (tau > 0, 'tau must be positive', tau),
            (tau_b > 0, 'tau_b must be positive', tau_b),
            (
                sinkhorn_iters >= 1,
                'sinkhorn_iters must be at least 1 (balanced=False for no balancing)',
                sinkhorn_iters,
            ),
            (
                positive_mask in POSITIVE_MASKS,
                f'positive_mask must be one of {POSITIVE_MASKS}',
                positive_mask,
            ),
            (
                balance_rows in BALANCE_ROWS,
                f'balance_rows must be one of {BALANCE_ROWS}',
                balance_rows,
            ),
            (top_k >= 0, 'top_k must be 0 (off) or positive', top_k),
        ):
            if not allowed:
                raise ValueError(f'{rule}, but got {value!r}.')
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

    @torch.compiler.disable  # collectives and recomputation: nothing to compile
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
        V, T = self.num_views, self.num_target_views
        with torch.autocast(z.device.type, enabled=False):
            Z = Z_m = _unit_length(z, V)
            if z_target is not None:  # the teacher's latents, Z_m in App. C
                Z_m = _unit_length(z_target.detach(), self.num_teacher_views).to(Z)
            Z_target, images, target_images = _gather_images(Z_m[:T])
            n, N = len(images), len(target_images)
            if self.positive_mask is not None and N < 2:
                raise ValueError(
                    'BAMLoss with a positive mask needs at least 2 images over all '
                    f'ranks, but got {N}: nothing is left to compare with.'
                )
            if self.global_norm:  # one matrix with the columns of all target views
                Z_target, target_images = (
                    Z_target.flatten(0, 1),
                    target_images.repeat(T),
                )

            def similarity_to_targets(z: Tensor) -> Tensor:
                mask = self.positive_mask
                return similarity(z, Z_target, images, target_images, mask)

            B = self._targets(Z_m, similarity_to_targets)
            B_sum = B.sum(dim=0)
            entropy_b = torch.special.entr(B).sum(dim=-1).mean()

            def match_view(z_v: Tensor, v: int) -> tuple[Tensor, Tensor]:
                S = similarity_to_targets(z_v)
                log_A = attention(S, self.tau, log=True)
                # CE is linear in b, so one CE with the sum of b does for all t != v.
                loss = match(B_sum - B[v] if v < T else B_sum, log_A).mean()
                log_A = log_A.detach()
                return loss, match(log_A.exp(), log_A).mean()  # entropy: CE(a, a)

            # S and A exist for one view at a time and are recomputed in backward. The
            # only target view of T = 1 has no other target to match.
            losses, entropies = zip(
                *(
                    checkpoint(match_view, z_v, v, use_reentrant=False)
                    for v, z_v in enumerate(Z.unbind())
                    if T > 1 or v > 0
                )
            )
            entropy_a = torch.stack(entropies).mean()
            self.stats = dict(entropy_a=entropy_a, entropy_b=entropy_b)
            # Ranks average their losses: one with more images must count for more.
            weight = n * get_world_size() / N
            return weight * torch.stack(losses).sum() / (T * (V - 1))

    @torch.no_grad()
    def _targets(self, Z_m: Tensor, similarity_to_targets: Callable) -> Tensor:
        """B of the target views: (T, n, T * N), or (T, T, n, N) by pairs of views."""
        T = self.num_target_views
        S = similarity_to_targets(Z_m[:T] if self.global_norm else Z_m[:T, None])
        if not self.balanced:
            B = attention(S, self.tau)
        else:
            rows, more = S, ()
            if self.global_norm:
                rows, more = S.flatten(0, 1), Z_m[T : self.num_teacher_views]
            further_rows = partial(map, similarity_to_targets, more)
            B = balance(rows, self.tau_b, self.sinkhorn_iters, further_rows).view_as(S)
        return _keep_top_k(B, self.top_k) if self.top_k else B

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


def _unit_length(z: Tensor, num_views: int) -> Tensor:
    """Normalised latents, shape (num_views, n, d)."""
    if z.dtype != torch.float64:
        z = z.float()  # similarities of half floats are too coarse for exp()
    return F.normalize(z.view(num_views, -1, z.shape[-1]), dim=-1)


def _gather_images(Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Join the images of all ranks, with gradients to all of them.

    Args:
        Z (Tensor): Latents of this rank's images, shape (T, n, d).

    Returns:
        tuple[Tensor, Tensor, Tensor]: Latents of all images, shape (T, N, d), indices
        of this rank's images among them, shape (n,), and of all images, shape (N,).
    """
    n = Z.shape[1]
    sizes = [int(size) for size in all_gather(torch.tensor(n, device=Z.device))]
    first, N = sum(sizes[: get_rank()]), sum(sizes)
    if get_world_size() > 1:
        # Each rank fills its own columns, the sum has all. Its gradient is a sum, too.
        Z = dist_nn.all_reduce(F.pad(Z, (0, 0, first, N - first - n)))
    all_images = torch.arange(N, device=Z.device)
    return Z, all_images[first : first + n], all_images


def _keep_top_k(B: Tensor, k: int) -> Tensor:
    """Keep the k columns that are largest on average over an image's T target views.

    Not in the paper; the authors' release does it. Rows sum to 1 again afterwards.
    """
    if k >= B.shape[-1]:
        return B
    average = B.mean(dim=0)
    kept = torch.zeros_like(average).scatter_(-1, average.topk(k).indices, 1.0)
    B = B * kept
    # A view may have nothing at all in the columns that its sister views chose.
    B = torch.where(B.sum(dim=-1, keepdim=True) == 0, average * kept, B)
    return B / B.sum(dim=-1, keepdim=True)
