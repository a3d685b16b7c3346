"""k-NN: equal to a slow computation, on any number of ranks, in bounded memory."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from mmbam.evaluation import knn_accuracy, knn_predict, nearest


def made_features(num_train=90, num_test=41, dim=8, num_classes=7, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(num_classes, dim))
    train_labels = rng.integers(num_classes, size=num_train)
    test_labels = rng.integers(num_classes, size=num_test)
    train = centres[train_labels] + rng.normal(size=(num_train, dim))
    test = centres[test_labels] + rng.normal(size=(num_test, dim))
    return tuple(torch.from_numpy(a) for a in (train, train_labels, test, test_labels))


def slow_votes(train, train_labels, test, k, temperature):
    """One image and one neighbour at a time, neighbours by scikit-learn."""
    search = NearestNeighbors(n_neighbors=k, metric='cosine').fit(train)
    distances, indices = search.kneighbors(test)
    votes = np.zeros((len(test), int(train_labels.max()) + 1))
    for row in range(len(test)):
        for distance, index in zip(distances[row], indices[row]):
            votes[row, train_labels[index]] += np.exp((1 - distance) / temperature)
    return votes


def slow_accuracy(train, train_labels, test, test_labels, k, temperature):
    votes = slow_votes(train, train_labels, test, k, temperature)
    order = np.argsort(-votes, axis=1, kind='stable')[:, :5]
    hits = (order == test_labels[:, None]) & (np.take_along_axis(votes, order, 1) > 0)
    return {'top1': 100 * hits[:, 0].mean(), 'top5': 100 * hits.any(1).mean()}


@pytest.mark.parametrize('k, temperature', [(1, 0.07), (20, 0.07), (11, 1), (90, 0.5)])
def test_equals_a_slow_computation(k, temperature):
    data = made_features()
    expected = slow_accuracy(*[a.numpy() for a in data], k, temperature)
    assert 20 < expected['top1'] < 100  # the case is neither trivial nor hopeless
    assert knn_accuracy(*data, k=k, temperature=temperature) == pytest.approx(expected)


def test_predictions_are_ranked_by_votes():
    train, train_labels, test, _ = made_features()
    votes = slow_votes(train.numpy(), train_labels.numpy(), test.numpy(), 20, 0.07)
    order = np.argsort(-votes, axis=1, kind='stable')[:, :5]
    order[np.take_along_axis(votes, order, axis=1) == 0] = -1
    assert (knn_predict(train, train_labels, test).numpy() == order).all()


def test_blocks_do_not_change_the_result(monkeypatch):
    data = made_features()
    whole = knn_predict(*data[:3], k=20)
    monkeypatch.setattr(nearest, '_COLUMNS', 13)  # fewer than k samples in a block
    monkeypatch.setattr(nearest, 'ROWS', 4)
    assert torch.equal(knn_predict(*data[:3], k=20), whole)


def test_the_length_of_a_feature_does_not_count():
    train, train_labels, test, test_labels = made_features()
    scale = torch.rand(len(train), 1, dtype=train.dtype) * 100 + 0.1
    assert torch.equal(
        knn_predict(train * scale, train_labels, test),
        knn_predict(train, train_labels, test),
    )


def test_a_small_temperature_neither_overflows_nor_underflows():
    data = made_features()
    first = knn_predict(*data[:3], k=1)[:, 0]
    sharp = knn_predict(*data[:3], k=20, temperature=1e-5)[:, 0]
    assert torch.equal(sharp, first)


def test_more_neighbours_than_samples_is_one_clear_sentence():
    data = made_features(num_train=10)
    with pytest.raises(ValueError, match='k=20 neighbors need.*there are 10'):
        knn_accuracy(*data)


@pytest.mark.parametrize(
    'change, sentence',
    [
        (dict(k=0), 'k=0'),
        (dict(temperature=0), 'temperature=0'),
        (dict(train_labels=torch.zeros(3, dtype=torch.long)), '90 features and 3'),
        (dict(test_labels=torch.zeros(0, dtype=torch.long)), '41 features and 0'),
        (dict(test_features=torch.zeros(41, 9)), 'one width, but got 8 and 9'),
        (dict(test_features=torch.full((41, 8), torch.nan)), 'finite'),
        (dict(train_labels=torch.full((90,), -1)), '0 or more'),
    ],
)
def test_bad_input_is_named(change, sentence):
    names = ['train_features', 'train_labels', 'test_features', 'test_labels']
    with pytest.raises(ValueError, match=sentence):
        knn_accuracy(**{**dict(zip(names, made_features())), **change})
