"""Weighted k nearest neighbours on frozen features."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from mmengine.dist import all_gather, all_reduce, get_dist_info
from torch import Tensor

from mmbam.utils.errors import InputError

from .accuracy import check_labels, top_accuracies
from .nearest import ROWS, nearest


def knn_accuracy(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    test_labels: Tensor,
    k: int = 20,
    temperature: float = 0.07,
    sharded: bool = False,
) -> dict[str, float]:
    """Measure ``top1`` and ``top5`` accuracy of :func:`knn_predict`, in per cent.

    It has the same arguments, and the labels (M,) of the test features.
    """
    check_labels('k-NN', test_features, test_labels)
    predictions = knn_predict(
        train_features, train_labels, test_features, k, temperature, sharded
    )
    return top_accuracies(predictions, test_labels)


def knn_predict(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    k: int = 20,
    temperature: float = 0.07,
    sharded: bool = False,
) -> Tensor:
    """Predict five classes per test sample by the votes of its nearest neighbours.

    Each of the k training samples with the largest cosine similarity s votes for its
    class with weight exp(s / temperature) (Wu et al., CVPR 2018). Each rank searches
    its part of the training features for all test samples, then the best of all ranks
    vote. The result equals that of one rank, and no rank needs all training features.

    Args:
        train_features (Tensor): Features to search, of shape (N, d).
        train_labels (Tensor): Labels of the training features, of shape (N,), from 0.
        test_features (Tensor): Features to classify, of shape (M, d), the same on
            every rank.
        k (int): Number of neighbours that vote. Defaults to 20.
        temperature (float): Temperature of the votes; a smaller one gives the nearest
            neighbours more weight. Defaults to 0.07.
        sharded (bool): Whether the training features differ from rank to rank, each
            rank holding one part, as ``extract_features(gather=False)`` returns it.
            Defaults to False: every rank holds all of them.

    Returns:
        Tensor: Classes (M, 5) in descending order of their votes, on the CPU; -1 where
        fewer than five classes got a vote.
    """
    check_labels('k-NN', train_features, train_labels, least=0)
    if train_features.shape[1:] != test_features.shape[1:]:
        raise ValueError(
            'Training and test features must have one width, but got '
            f'{train_features.shape[1]} and {test_features.shape[1]}.'
        )
    check_votes(k, temperature)
    if len(train_labels) and int(train_labels.min()) < 0:
        raise InputError(
            'Labels of training samples must be 0 or more, but one is '
            f'{int(train_labels.min())}.'
        )
    if not sharded:
        rank, world_size = get_dist_info()
        train_features = train_features[rank::world_size]
        train_labels = train_labels[rank::world_size]
    size = _over_ranks(len(train_labels), 'sum')
    if k > size:
        raise InputError(
            f'k={k} neighbors need at least as many training samples, but there are '
            f'{size}: choose a smaller k or more samples.'
        )
    near, rows = nearest(test_features, train_features, k)
    # Columns that a small part lacks never vote: exp(-inf) = 0.
    lacking = (0, k - rows.shape[1])
    near = F.pad(near, lacking, value=-torch.inf)
    classes = F.pad(train_labels.long().cpu()[rows], lacking)
    near, classes = (torch.cat(all_gather(x), dim=1) for x in (near, classes))
    similarities, best = near.topk(k, dim=1)
    labels = classes.gather(1, best)
    # NaN counts as the largest similarity.
    if not similarities.isfinite().all():
        raise InputError(
            'k-NN needs finite features, but some hold NaN or infinite values: the '
            'network may have diverged.'
        )
    largest = int(train_labels.max()) if len(train_labels) else 0
    num_classes = _over_ranks(largest, 'max') + 1
    votes = zip(similarities.split(ROWS), labels.split(ROWS))
    return torch.cat([_vote(s, y, num_classes, temperature) for s, y in votes])


def check_votes(k: int, temperature: float) -> None:
    """Refuse a number of neighbours or a temperature that is out of range."""
    if k < 1 or not 0 < temperature < math.inf:
        raise InputError(
            'k must be at least 1 and temperature a finite number above 0, but got '
            f'k={k}, temperature={temperature}.'
        )


def _over_ranks(value: int, op: str) -> int:
    total = torch.tensor([value])
    all_reduce(total, op)
    return int(total)


def _vote(
    similarities: Tensor, labels: Tensor, num_classes: int, temperature: float
) -> Tensor:
    # Relative to the nearest, so that small temperatures cannot overflow.
    weights = (similarities.double() - similarities[:, :1].double()) / temperature
    votes = weights.new_zeros(len(labels), num_classes)
    votes.scatter_add_(1, labels, weights.exp())
    votes, classes = votes.sort(dim=1, descending=True, stable=True)
    classes[votes == 0] = -1
    predictions = classes.new_full((len(labels), 5), -1)
    predictions[:, : min(5, num_classes)] = classes[:, :5]
    return predictions
