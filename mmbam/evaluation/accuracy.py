"""What several evaluators of features share."""

from __future__ import annotations

import math

from torch import Tensor


def check_labels(what: str, features: Tensor, labels: Tensor, least: int = 1) -> None:
    """Raise ValueError unless there are N >= ``least`` features (N, d) and N labels."""
    if features.dim() != 2 or len(features) != len(labels) or len(labels) < least:
        raise ValueError(
            f'{what} needs features of shape (N, d) with N of at least {least} and a '
            f'label for each, but got {tuple(features.shape)}: {len(features)} '
            f'features and {len(labels)} labels.'
        )


def top_accuracies(ranked: Tensor, labels: Tensor) -> dict[str, float]:
    """Measure ``top1`` and ``top5`` in per cent; ``ranked`` has the likeliest first."""
    hits = ranked.cpu() == labels.cpu().view(-1, 1)
    return dict(
        top1=100 * hits[:, 0].double().mean().item(),
        top5=100 * hits.any(dim=1).double().mean().item(),
    )


def standard_error(accuracy: float, number: int) -> float:
    """Estimate the standard error of an accuracy in per cent on a number of images.

    After Agresti and Coull (1998), with two hits and two misses added, so that a small
    test set without any miss does not seem to be certain.
    """
    share = (accuracy / 100 * number + 2) / (number + 4)
    return 100 * math.sqrt(share * (1 - share) / (number + 4))
