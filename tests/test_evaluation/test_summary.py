"""All scores of one network from one extraction."""

import pytest
import torch

from mmbam.evaluation import cluster_scores, knn_accuracy, linear_probe
from mmbam.evaluation.summary import score_features


def blobs(per_class, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(4).repeat_interleave(per_class)
    noise = torch.randn(len(labels), 6, generator=generator)
    return torch.eye(6)[labels] * 2 + noise, labels


def test_each_score_is_that_of_its_own_function():
    train, test = blobs(30, 0), blobs(10, 1)
    scores = score_features(train, test, num_classes=(2, 4), k=5, draws=3, seed=7)
    assert scores == dict(
        knn=knn_accuracy(*train, *test, k=5)['top1'],
        linear=linear_probe(*train, *test, seed=7)['top1'],
        clustering=cluster_scores(*test, (2, 4), draws=3, seed=7),
    )
    assert 25 < scores['knn'] < 100 and 25 < scores['linear'] < 100


def test_more_neighbours_than_samples_are_refused():
    with pytest.raises(ValueError, match='k=20 neighbours need'):
        score_features(blobs(2, 0), blobs(2, 1))
