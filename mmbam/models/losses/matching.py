"""The matching loss and its gradient in closed form (paper, Eq. 5).

The rows of B sum to 1, so with A = softmax(S / tau)

    d CE(b, a) / d s = (a - b) / tau.

The loss of one source view against all targets therefore needs one matrix of
similarities at a time, and its gradient with respect to the latents can be taken while
that matrix is still there. Neither S nor A ever exists as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mmengine.dist import all_reduce
from torch import Tensor

from .attention import EXCLUDED, LN_2, mask_positives, rows_at_once


class MatchAttention(torch.autograd.Function):
    """Cross entropy between balanced targets and the attention of the sources."""

    @staticmethod
    def forward(
        ctx,
        z: Tensor,
        targets: Tensor,
        b: Tensor,
        tau: float,
        positive_mask: str | None,
        first_column: int,
        scale: float,
        own_targets: bool,
    ) -> tuple[Tensor, Tensor]:
        """Sum ``CE(b[t], a[s])`` over images and over pairs of views with s != t.

        Args:
            ctx: Autograd's context.
            z (Tensor): Latents of the sources, shape (V, n, d), of any length.
            targets (Tensor): Normalised latents of the target views of all ranks'
                images, shape (T, N, d).
            b (Tensor): Targets of this rank's images, shape (T, n, G, C). They are
                overwritten.
            tau (float): Temperature of the sources' soft-max.
            positive_mask (str | None): As in :class:`BAMLoss`.
            first_column (int): Number of images on the ranks before this one.
            scale (float): What the sum is multiplied with.
            own_targets (bool): Whether ``targets`` are the ranks' own ``z``, so that
                the gradient flows through them as well.

        Returns:
            tuple[Tensor, Tensor]: The loss, and the mean entropy of A's rows.
        """
        num_views, n, dim = z.shape
        num_targets, _, groups, _ = b.shape
        columns = targets.reshape(-1, dim)
        inverse_norm = z.norm(dim=-1, keepdim=True).clamp_min_(1e-12).reciprocal_()
        tau = tau * LN_2  # everything is counted in bits,
        scale = scale * LN_2 / groups  # and becomes nats again at the end
        scale_z = inverse_norm / tau
        rows = rows_at_once(len(columns), z.device)
        first_view = 1 if num_targets == 1 else 0  # a lone target has no other to match

        grad_z = torch.empty_like(z)
        grad_z[:first_view] = 0
        grad_columns = torch.zeros_like(columns) if own_targets else None
        # s counted from the largest of its row:
        matched = z.new_zeros(num_views)  # <sum of b, s> of all rows of a view
        exp_sum = z.new_ones(num_views, n, groups, 1)  # sum of 2 ** s of a row
        along = z.new_zeros(num_views, n, 1)  # <sum of b - a, s> of a row
        # Fresh memory for every part would cost as much as what is done with it.
        num_buffers = 2 if num_targets <= 2 else 3
        buffers = b.new_empty(num_buffers, min(rows, n), *b.shape[2:])
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            blocks, product, *spare = buffers[:, : part.stop - start]
            s = blocks.flatten(1)  # the same numbers, for products with the columns
            b_part = b[:, part].unbind()
            for view in range(first_view, num_views):
                if view < num_targets:
                    others = [b_t for t, b_t in enumerate(b_part) if t != view]
                    target, count = _sum(others, *spare), num_targets - 1
                elif view == num_targets:
                    # This view and all that follow match the sum over all targets. It
                    # takes the place of b[0], which nothing needs any more.
                    target, count = _sum(b_part, b_part[0]), num_targets
                source = z[view, part] * scale_z[view, part]
                torch.mm(source, columns.T, out=s)
                if positive_mask is not None:
                    value = EXCLUDED / tau if positive_mask == 'exclude' else 0.0
                    mask_positives(s, start, n, first_column, num_targets, value)
                # Rows of A and B sum to 1: s may be counted from its largest.
                blocks.sub_(blocks.amax(dim=-1, keepdim=True))
                # torch.dot would save a pass, but loses digits of a sum this long.
                matched[view] += torch.mul(target, blocks, out=product).sum()
                sums = exp_sum[view, part]
                torch.sum(blocks.exp2_(), dim=-1, keepdim=True, out=sums)
                # From here on s holds the sum of b - a, the gradient's negative.
                torch.addcmul(target, blocks, 1 / sums, value=-count, out=blocks)
                if positive_mask == 'zero':  # a constant has no gradient
                    mask_positives(s, start, n, first_column, num_targets, 0.0)
                grad = torch.mm(s, columns, out=grad_z[view, part])
                if grad_columns is not None:
                    # Times tau, as grad is: source has been divided by it.
                    grad_columns.addmm_(s.T, source, alpha=tau)
                # The length of z changes nothing; source is z / (|z| * tau).
                dots = along[view, part]
                torch.sum(grad * source, dim=-1, keepdim=True, out=dots)
                grad.addcmul_(source, dots, value=-(tau**2))
        if grad_columns is not None:
            # Every rank's loss depends on this rank's targets. Reduced here, not in
            # backward, so that no collective can meet those of the gradients.
            all_reduce(grad_columns)
            own = slice(first_column, first_column + n)
            grad, x = grad_columns.view_as(targets)[:, own], targets[:, own]
            grad_z[:num_targets] += grad - x * (x * grad).sum(dim=-1, keepdim=True)
        # For backward: the sign, 1 / tau, 1 / |z|, the mean over pairs and images.
        ctx.grad_z = grad_z
        ctx.scale_z = scale_z.mul_(-scale)

        counts = z.new_full((num_views,), num_targets)  # targets that a view matches
        counts[:num_targets] -= 1
        log_sum = exp_sum.log2_().sum(dim=(1, 2, 3))
        loss = (counts * log_sum - matched).sum()
        entropy = log_sum - (matched - along.sum(dim=(1, 2))) / counts
        entropy = entropy[first_view:].mean() * (LN_2 / (n * groups))
        ctx.mark_non_differentiable(entropy)
        return loss * scale, entropy

    @staticmethod
    def backward(ctx, grad_loss: Tensor, grad_entropy: Tensor):
        """Scale the gradient that forward has already computed."""
        return (ctx.grad_z * (ctx.scale_z * grad_loss),) + (None,) * 7


def _sum(tensors: Sequence[Tensor], out: Tensor | None = None) -> Tensor:
    """Sum in ``out``, which may be the first of them; a lone tensor is its own sum."""
    if len(tensors) == 1:
        return tensors[0]
    torch.add(tensors[0], tensors[1], out=out)
    for tensor in tensors[2:]:
        out += tensor
    return out
