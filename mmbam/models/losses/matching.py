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

from .attention import EXCLUDED, mask_positives, rows_at_once


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
            b (Tensor): Targets of this rank's images, shape (T, n, G, C).
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
        b = b.reshape(num_targets, n, -1)
        inverse_norm = z.norm(dim=-1, keepdim=True).clamp_min_(1e-12).reciprocal_()
        scale = scale / groups
        rows = rows_at_once(columns)

        grad_z = torch.zeros_like(z)
        grad_columns = torch.zeros_like(columns) if own_targets else None
        loss, entropy = z.new_zeros(()), z.new_zeros(())
        # Fresh memory for every part would cost as much as what is done with it.
        buffers = z.new_empty(3, min(rows, n), len(columns))
        # A lone target view has nothing to be matched with.
        views = range(num_views) if num_targets > 1 else range(1, num_views)
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            s, target_of_view, product = buffers[:, : part.stop - start]
            all_targets = b[:, part].sum(dim=0)
            for view in views:
                count, target = num_targets, all_targets
                if view < num_targets:
                    count = num_targets - 1
                    target = torch.sub(all_targets, b[view, part], out=target_of_view)
                source = z[view, part] * (inverse_norm[view, part] / tau)
                torch.mm(source, columns.T, out=s)
                if positive_mask is not None:
                    value = EXCLUDED / tau if positive_mask == 'exclude' else 0.0
                    mask_positives(s, start, first_column, num_targets, value)
                matched = torch.mul(target, s, out=product).sum()
                blocks = s.view(len(s), groups, -1)
                peak = blocks.amax(dim=-1, keepdim=True)
                exp_sum = blocks.sub_(peak).exp_().sum(dim=-1, keepdim=True)
                logsumexp = peak.add_(exp_sum.log()).sum()
                loss += count * logsumexp - matched
                blocks.mul_(exp_sum.reciprocal_().mul_(count))
                grad_s = s.sub_(target)
                if positive_mask == 'zero':  # a constant has no gradient
                    mask_positives(grad_s, start, first_column, num_targets, 0.0)
                grad = torch.mm(grad_s, columns, out=grad_z[view, part])
                # <count * a - target, s>, which the gradient holds, plus <target, s>.
                attended = torch.dot(grad.flatten(), source.flatten()) + matched
                entropy += logsumexp - attended / count
                if grad_columns is not None:
                    grad_columns.addmm_(grad_s.T, source)
        grad_z.div_(tau)
        if grad_columns is not None:
            # Every rank's loss depends on this rank's targets. Reduced here, not in
            # backward, so that no collective can meet those of the gradients.
            all_reduce(grad_columns)
            own = grad_columns.view_as(targets)[:, first_column : first_column + n]
            grad_z[:num_targets].add_(own)
        for g, x, inverse in zip(grad_z, z, inverse_norm):
            x = x * inverse
            g.sub_(x.mul_((x * g).sum(dim=-1, keepdim=True))).mul_(inverse * scale)
        ctx.grad_z = grad_z
        entropy = entropy / (len(views) * n * groups)
        ctx.mark_non_differentiable(entropy)
        return loss * scale, entropy

    @staticmethod
    def backward(ctx, grad_loss: Tensor, grad_entropy: Tensor):
        """Scale the gradient that forward has already computed."""
        return (ctx.grad_z * grad_loss,) + (None,) * 7
