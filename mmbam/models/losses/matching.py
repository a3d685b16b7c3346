"""The matching loss and its gradient in closed form (paper, Eq. 5).

The rows of B sum to 1, so with A = softmax(S / tau)

    d CE(b, a) / d s = (a - b) / tau.

The loss of one source view against all targets therefore needs one matrix of
similarities at a time, and its gradient with respect to the latents can be taken while
that matrix is still there. Neither S nor A ever exists as a whole.
"""

from __future__ import annotations

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
        rows = rows_at_once(len(columns), z.device)

        grad_z = torch.empty_like(z)
        grad_columns = torch.zeros_like(columns) if own_targets else None
        loss, entropy = z.new_zeros(()), z.new_zeros(())
        # Fresh memory for every part would cost as much as what is done with it.
        buffers = b.new_empty(2, min(rows, n), *b.shape[2:])
        views = range(num_views)
        if num_targets == 1:  # a lone target view has nothing to be matched with
            views = range(1, num_views)
            grad_z[0] = 0
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            blocks, product = buffers[:, : part.stop - start]
            s = blocks.flatten(1)  # the same numbers, for products with the columns
            for view in views:
                of_others = [b[t, part] for t in range(num_targets) if t != view]
                count = len(of_others)
                if view == num_targets:
                    # All that follow match the same sum. The target views, which need
                    # b[0] alone, have had it.
                    for b_t in of_others[1:]:
                        of_others[0] += b_t
                if view >= num_targets:
                    of_others = of_others[:1]
                source = z[view, part] * (inverse_norm[view, part] / tau)
                torch.mm(source, columns.T, out=s)
                if positive_mask is not None:
                    value = EXCLUDED / tau if positive_mask == 'exclude' else 0.0
                    mask_positives(s, start, n, first_column, num_targets, value)
                # Rows of A and B sum to 1: s may be counted from its largest.
                blocks.sub_(blocks.amax(dim=-1, keepdim=True))
                # torch.dot would save a pass, but loses digits of a sum this long.
                matched = sum(
                    torch.mul(b_t, blocks, out=product).sum() for b_t in of_others
                )
                exp_sum = blocks.exp2_().sum(dim=-1, keepdim=True)
                log_sum = exp_sum.log2().sum()
                loss += count * log_sum - matched
                # From here on s holds the sum of b - a, the gradient's negative.
                blocks.mul_(-count / exp_sum)
                for b_t in of_others:
                    blocks += b_t
                if positive_mask == 'zero':  # a constant has no gradient
                    mask_positives(s, start, n, first_column, num_targets, 0.0)
                grad = torch.mm(s, columns, out=grad_z[view, part])
                # Summed over the rows, this is <sum of b - a, similarities>.
                along = (grad * source).sum(dim=-1, keepdim=True)
                entropy += log_sum - (matched - along.sum()) / count
                if grad_columns is not None:
                    grad_columns.addmm_(s.T, source, alpha=-scale)
                # The length of z changes nothing; source is z / (|z| * tau).
                grad.addcmul_(source, along, value=-(tau**2))
                grad.mul_(inverse_norm[view, part] * (-scale / tau))
        if grad_columns is not None:
            # Every rank's loss depends on this rank's targets. Reduced here, not in
            # backward, so that no collective can meet those of the gradients.
            all_reduce(grad_columns)
            own = slice(first_column, first_column + n)
            grad, x = grad_columns.view_as(targets)[:, own], targets[:, own]
            grad = grad - x * (x * grad).sum(dim=-1, keepdim=True)
            grad_z[:num_targets].addcmul_(grad, inverse_norm[:num_targets])
        ctx.grad_z = grad_z
        entropy = entropy * (LN_2 / (len(views) * n * groups))
        ctx.mark_non_differentiable(entropy)
        return loss * scale, entropy

    @staticmethod
    def backward(ctx, grad_loss: Tensor, grad_entropy: Tensor):
        """Scale the gradient that forward has already computed."""
        return (ctx.grad_z * grad_loss,) + (None,) * 7
