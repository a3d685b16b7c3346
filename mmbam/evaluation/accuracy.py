"""What several evaluators of features share."""

from __future__ import annotations

import math

from torch import Tensor


def check_labels(what: str, features: Tensor, labels: Tensor, least: int = 1) -> None:
    """Raise ValueError unless there is a label for each feature, and ``least`` of them.

    Args:
        what (str): Subject of the message.
        features (Tensor): Features of shape (N, d).
        labels (Tensor): Labels of shape (N,).
        least (int): Smallest N. Defaults to 1.
    """
    if features.dim() != 2 or len(features) != len(labels) or len(labels) < least:
        raise ValueError(
            f'{what} needs features of shape (N, d) with N of at least {least} and a '
            f'label for each, but got {tuple(features.shape)}: {len(features)} '
            f'features and {len(labels)} labels.'
        )


def top_accuracies(ranked: Tensor, labels: Tensor) -> dict[str, float]:
    """Measure ``top1`` and ``top5`` in per cent.

    Args:
        ranked (Tensor): Classes of each sample, the likeliest first, at most five.
        labels (Tensor): Labels of the samples, of shape (N,).
    """
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
