"""Autograd helpers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class GradientAtOnce(torch.autograd.Function):
    """Sum of scalars whose gradients are taken one by one in the forward pass.

    Only the gradient of the inputs is kept for the backward pass, and only the graph of
    one scalar exists at a time. ``torch.utils.checkpoint`` would compute all twice.
    Second derivatives are refused.
    """

    @staticmethod
    def forward(ctx, function: Callable, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Sum up what ``function(*inputs)`` yields.

        Args:
            function (Callable): Generator of pairs of scalars: one to differentiate,
                and one without gradient to report.
            *inputs (Tensor): Tensors to differentiate by, arguments of ``function``.

        Returns:
            tuple[Tensor, Tensor]: The sums of the first and of the second ones.
        """
        leaves = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
        scalars, reports = [], []
        with torch.enable_grad():
            for scalar, report in function(*leaves):
                if scalar.requires_grad:
                    scalar.backward()  # adds to the leaves' gradients
                scalars.append(scalar.detach())
                reports.append(report)
        ctx.save_for_backward(*(x.grad for x in leaves))
        total, reported = torch.stack(scalars).sum(), torch.stack(reports).sum()
        ctx.mark_non_differentiable(reported)
        return total, reported

    @staticmethod
    def backward(ctx, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        # Not once_differentiable: it lets a constant incoming gradient pass in silence.
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError('This loss has no second derivatives.')
        return None, *(None if g is None else g * grad for g in ctx.saved_tensors)
