"""Weighted k nearest neighbours on frozen features."""

from __future__ import annotations

import torch
from mmengine.device import get_device
from mmengine.dist import all_gather, all_reduce, get_dist_info
from torch import Tensor
from torch.nn.functional import normalize

from mmbam.utils.errors import InputError

# Training rows compared at a time: with the default chunk of test rows, a block of
# similarities takes 256 MB.
_TRAIN_CHUNK = 65536


def knn_accuracy(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    test_labels: Tensor,
    k: int = 20,
    temperature: float = 0.07,
    chunk_size: int = 1024,
    sharded: bool = False,
) -> dict[str, float]:
    """Measure the accuracy of the weighted k-NN classifier, in per cent.

    Args:
        train_features (Tensor): Features to search, of shape (N, d).
        train_labels (Tensor): Labels of the training features, of shape (N,), from 0.
        test_features (Tensor): Features to classify, of shape (M, d).
        test_labels (Tensor): Labels of the test features, of shape (M,).
        k (int): Number of neighbours that vote. Defaults to 20.
        temperature (float): See :func:`knn_predict`. Defaults to 0.07.
        chunk_size (int): See :func:`knn_predict`. Defaults to 1024.
        sharded (bool): See :func:`knn_predict`. Defaults to False.

    Returns:
        dict[str, float]: ``top1`` and ``top5``.
    """
    if len(test_features) != len(test_labels) or len(test_labels) == 0:
        raise ValueError(
            'k-NN needs one label for each test feature and at least one of them, but '
            f'got {len(test_features)} features and {len(test_labels)} labels.'
        )
    predictions = knn_predict(
        train_features, train_labels, test_features, k, temperature, chunk_size, sharded
    )
    hits = predictions == test_labels.cpu().view(-1, 1)
    return {
        'top1': 100 * hits[:, 0].double().mean().item(),
        'top5': 100 * hits.any(dim=1).double().mean().item(),
    }


def knn_predict(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    k: int = 20,
    temperature: float = 0.07,
    chunk_size: int = 1024,
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
        chunk_size (int): Number of test samples that are compared with 65536 training
            samples at a time. Bounds the memory without changing the result. Defaults
            to 1024.
        sharded (bool): Whether the training features differ from rank to rank, each
            rank holding one part, as ``extract_features(gather=False)`` returns it.
            Defaults to False: every rank holds all of them.

    Returns:
        Tensor: Classes (M, 5) in descending order of their votes, on the CPU; -1 where
        fewer than five classes got a vote.
    """
    _check(train_features, train_labels, test_features, k, temperature, chunk_size)
    if not sharded:
        rank, world_size = get_dist_info()
        train_features = train_features[rank::world_size]
        train_labels = train_labels[rank::world_size]
    size = _over_ranks(len(train_labels), 'sum')
    if k > size:
        raise InputError(
            f'k={k} neighbours need at least as many training samples, but there are '
            f'{size}: choose a smaller k or more samples.'
        )
    similarities, labels = _local_neighbours(
        train_features, train_labels, test_features, k, chunk_size
    )
    similarities, labels = _best(
        torch.cat(all_gather(similarities), dim=1),
        torch.cat(all_gather(labels), dim=1),
        k,
    )
    # topk ranks NaN first, so any NaN is among the best.
    if not similarities.isfinite().all():
        raise InputError(
            'k-NN needs finite features, but some hold NaN or infinite values: the '
            'network may have diverged.'
        )
    largest = int(train_labels.max()) if len(train_labels) else 0
    num_classes = _over_ranks(largest, 'max') + 1
    votes = zip(similarities.split(chunk_size), labels.split(chunk_size))
    return torch.cat([_vote(s, y, num_classes, temperature) for s, y in votes])


def _check(train_features, train_labels, test_features, k, temperature, chunk_size):
    if len(train_features) != len(train_labels):
        raise ValueError(
            'k-NN needs one label for each training feature, but got '
            f'{len(train_features)} features and {len(train_labels)} labels.'
        )
    if train_features.dim() != 2 or test_features.dim() != 2:
        raise ValueError(
            'k-NN needs features of shape (N, d), but got '
            f'{tuple(train_features.shape)} and {tuple(test_features.shape)}.'
        )
    if train_features.shape[1] != test_features.shape[1]:
        raise ValueError(
            'Training and test features must have one width, but got '
            f'{train_features.shape[1]} and {test_features.shape[1]}.'
        )
    if k < 1 or chunk_size < 1 or temperature <= 0:
        raise InputError(
            'k and chunk_size must be at least 1 and temperature above 0, but got '
            f'k={k}, chunk_size={chunk_size}, temperature={temperature}.'
        )
    if len(train_labels) and int(train_labels.min()) < 0:
        raise InputError(
            'Labels of training samples must be 0 or more, but one is '
            f'{int(train_labels.min())}.'
        )


def _over_ranks(value: int, op: str) -> int:
    total = torch.tensor([value])
    all_reduce(total, op)
    return int(total)


def _local_neighbours(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    k: int,
    chunk_size: int,
) -> tuple[Tensor, Tensor]:
    """Return similarities and labels (M, k) of this rank's nearest samples."""
    device = get_device()
    test = normalize(test_features.to(device).float(), dim=1)
    # Unused entries never vote: exp(-inf) = 0.
    similarities = test.new_full((len(test), k), -torch.inf)
    labels = torch.zeros(len(test), k, dtype=torch.long, device=device)
    # Training samples in the outer loop, so that each moves to the device only once.
    for rows, classes in zip(
        train_features.split(_TRAIN_CHUNK), train_labels.split(_TRAIN_CHUNK)
    ):
        rows = normalize(rows.to(device).float(), dim=1)
        classes = classes.to(device).long()
        for start in range(0, len(test), chunk_size):
            part = slice(start, start + chunk_size)
            block = test[part] @ rows.T
            near, index = block.topk(min(k, len(rows)), dim=1)
            similarities[part], labels[part] = _best(
                torch.cat([similarities[part], near], dim=1),
                torch.cat([labels[part], classes[index]], dim=1),
                k,
            )
    return similarities.cpu(), labels.cpu()


def _best(similarities: Tensor, labels: Tensor, k: int) -> tuple[Tensor, Tensor]:
    similarities, index = similarities.topk(k, dim=1)
    return similarities, labels.gather(1, index)


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
