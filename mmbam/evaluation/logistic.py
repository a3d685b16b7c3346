"""Multinomial logistic regression on frozen features, by L-BFGS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from mmengine.device import get_device
from mmengine.dist import all_reduce, get_dist_info
from torch import Tensor

from mmbam.utils.errors import InputError

from .accuracy import check_labels

EPS = np.finfo(float).eps
MAX_ITER = 1000
# Kornblith et al. (CVPR 2019), whose protocol SimCLR, BYOL and BAM follow.
L2_VALUES = tuple(np.logspace(-6, 5, 45).tolist())


def logistic_probe(
    train: tuple[Tensor, Tensor],
    val: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    l2_values: Sequence[float] = L2_VALUES,
    tol: float = 1e-4,
) -> dict:
    """Choose the regularization on validation, refit on both, and test.

    The sweep goes from the strongest regularization to the weakest, each fit starting
    from the previous one. Ties go to the strongest.

    Args:
        train (tuple[Tensor, Tensor]): Features (N, d) and labels (N,) to train on, the
            same on every rank.
        val (tuple[Tensor, Tensor]): Features and labels to validate on.
        test (tuple[Tensor, Tensor]): Features and labels to test on.
        l2_values (Sequence[float]): Strengths to try. Defaults to 45 values from 1e-6
            to 1e5, evenly spaced on a log scale.
        tol (float): See :func:`fit_logistic`. Defaults to 1e-4.

    Returns:
        dict: ``top1`` and ``mean_per_class`` accuracy on the test set in per cent, the
        chosen ``l2``, and ``val_top1``, the validation accuracy of each value of l2.
    """
    if not l2_values or min(l2_values) < 0:
        raise InputError(f'l2_values must be 0 or more, but got {tuple(l2_values)}.')
    for name, (features, labels) in dict(train=train, val=val, test=test).items():
        check_labels(f'The {name} set', features, labels)
    num_classes = int(max(labels.max() for _, labels in (train, val, test))) + 1
    weights, val_top1, fits = None, {}, {}
    for l2 in sorted(l2_values, reverse=True):
        weights = fit_logistic(*train, l2, num_classes, weights, tol)
        val_top1[l2] = accuracies(weights, *val)['top1']
        fits[l2] = weights
    best = max(val_top1, key=val_top1.__getitem__)  # the first of the largest
    both = torch.cat([train[0], val[0]]), torch.cat([train[1], val[1]])
    weights = fit_logistic(*both, best, num_classes, fits[best], tol)
    return dict(**accuracies(weights, *test), l2=best, val_top1=val_top1)


def fit_logistic(
    features: Tensor,
    labels: Tensor,
    l2: float,
    num_classes: int | None = None,
    start: Tensor | None = None,
    tol: float = 1e-4,
) -> Tensor:
    """Minimize ``sum of cross-entropies + l2 / 2 * |weights|^2``.

    This is scikit-learn's objective with ``C = 1 / l2``; the bias is not regularized.
    The ranks share the samples and add their gradients.

    Args:
        features (Tensor): Features of shape (N, d), the same on every rank.
        labels (Tensor): Labels of shape (N,), from 0 on.
        l2 (float): Strength of the regularization.
        num_classes (int, optional): Number of classes. Defaults to None, which is the
            largest label plus 1.
        start (Tensor, optional): Weights to start from. Defaults to None, which is
            zeros.
        tol (float): Largest entry of the gradient of the objective, divided by N, at
            which to stop. Defaults to 1e-4, as in scikit-learn.

    Returns:
        Tensor: Weights of shape (num_classes, d + 1) on the CPU, the bias last.
    """
    # Late, because hooks import this package and do not need scipy.
    from scipy.optimize import minimize

    classes = labels.unique()
    if len(classes) < 2:
        raise InputError(
            'Logistic regression needs samples of at least 2 classes, but got '
            f'{len(classes)}.'
        )
    size, dim = features.shape
    num_classes = num_classes or int(classes.max()) + 1
    rank, world_size = get_dist_info()
    device = get_device()
    x = features[rank::world_size].to(device).float()
    y = labels[rank::world_size].to(device).view(-1, 1)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = torch.from_numpy(flat).float().to(device).view(num_classes, dim + 1)
        logits = torch.addmm(w[:, -1], x, w[:, :-1].T)
        log_norm = logits.logsumexp(dim=1, keepdim=True)
        losses = log_norm - logits.gather(1, y)
        # d loss / d logits, without autograd and in place.
        residual = logits.sub_(log_norm).exp_()
        residual.scatter_add_(1, y, -torch.ones_like(losses))
        gradient = torch.cat([residual.T @ x, residual.sum(0).unsqueeze(1)], dim=1)
        # One message for both; double, because L-BFGS compares losses closely.
        loss = losses.sum(dtype=torch.float64).cpu().view(1)
        total = torch.cat([loss, gradient.double().cpu().flatten()])
        all_reduce(total)
        free = torch.from_numpy(flat).view(num_classes, dim + 1).clone()
        free[:, -1] = 0
        value = total[0] + l2 / 2 * free.square().sum()
        slope = total[1:] + l2 * free.flatten()
        return value.item() / size, slope.numpy() / size

    if start is None:
        start = torch.zeros(num_classes, dim + 1)
    result = minimize(
        objective,
        start.double().flatten().numpy(),
        jac=True,
        method='L-BFGS-B',
        # ftol as in scikit-learn, which stops where rounding hides any progress.
        options=dict(maxiter=MAX_ITER, gtol=tol, ftol=64 * EPS),
    )
    return torch.from_numpy(result.x).view(num_classes, dim + 1)


def accuracies(weights: Tensor, features: Tensor, labels: Tensor) -> dict[str, float]:
    """Measure ``top1`` and ``mean_per_class`` of fitted weights, in per cent."""
    logits = torch.addmm(weights[:, -1].float(), features, weights[:, :-1].float().T)
    right = (logits.argmax(dim=1) == labels).double()
    per_class = [right[labels == c].mean() for c in labels.unique()]
    return dict(
        top1=100 * right.mean().item(),
        mean_per_class=100 * torch.stack(per_class).mean().item(),
    )
