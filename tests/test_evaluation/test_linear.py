"""The linear probe on cached features: learns what is linear, and repeats itself."""

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from mmbam.evaluation import linear_probe
from tests.test_evaluation.test_logistic import made


def test_reaches_what_scikit_learn_reaches_on_scaled_features():
    train, _, test = made(sizes=(400, 1, 200))
    # Scales that only the batch norm can undo.
    scale = torch.logspace(-2, 2, 12)
    probe = linear_probe(
        train[0] * scale, train[1], test[0] * scale, test[1], batch_size=100
    )
    scaler = StandardScaler().fit(train[0])
    best = LogisticRegression(C=1e4, max_iter=1000)
    best.fit(scaler.transform(train[0]), train[1])
    expected = 100 * best.score(scaler.transform(test[0]), test[1])
    assert 40 < expected < 95
    assert probe['top1'] == pytest.approx(expected, abs=4)
    assert probe['top5'] == 100  # of 4 classes


def test_depends_on_its_seed_alone():
    train, _, test = made(noise=3)
    results = []
    for torch_seed in (0, 1):
        torch.manual_seed(torch_seed)
        results.append(linear_probe(*train, *test, epochs=3, batch_size=32))
    assert results[0] == results[1]


def test_bad_input_is_named():
    train, _, test = made()
    with pytest.raises(ValueError, match='120 features and 5 labels'):
        linear_probe(train[0], train[1][:5], *test)
