"""Scores k-NN, a linear probe and clustering from one extraction of features."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .clustering import cluster_scores
from .knn import knn_accuracy
from .linear import linear_probe


def score_features(
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    num_classes: Sequence[int] | None = None,
    k: int = 20,
    base_lr: float = 0.3,
    draws: int = 10,
    seed: int = 0,
) -> dict:
    """Score the same features by k-NN, a linear probe and clustering.

    Args:
        train (tuple[Tensor, Tensor]): Features (N, d) and labels (N,) to search and to
            train the probe on, the same on every rank.
        test (tuple[Tensor, Tensor]): Features and labels to classify and to cluster.
        num_classes (Sequence[int], optional): See :func:`cluster_scores`. Defaults to
            None.
        k (int): Number of neighbours that vote. Defaults to 20.
        base_lr (float): Learning rate of the probe, see :func:`linear_probe`. Defaults
            to 0.3.
        draws (int): Number of draws of classes to cluster. Defaults to 10.
        seed (int): Seed of the probe and of the draws. Defaults to 0.

    Returns:
        dict: ``knn`` and ``linear``, top-1 accuracies in per cent, and ``clustering``,
        the result of :func:`cluster_scores`.
    """
    return dict(
        knn=knn_accuracy(*train, *test, k=k)['top1'],
        linear=linear_probe(*train, *test, base_lr=base_lr, seed=seed)['top1'],
        clustering=cluster_scores(*test, num_classes, draws, seed),
    )
