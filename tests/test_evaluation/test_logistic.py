"""Logistic regression: scikit-learn's solution, chosen and refitted as the protocol."""

import numpy as np
import pytest
import scipy.optimize
import torch
from sklearn.linear_model import LogisticRegression

from mmbam.evaluation import fit_logistic, logistic_probe
from mmbam.evaluation.logistic import L2_VALUES, accuracies


def made(sizes=(120, 60, 90), dim=12, num_classes=4, noise=1.5, seed=0):
    """Training, validation and test set whose classes overlap."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(num_classes, dim))
    sets = []
    for size in sizes:
        y = rng.integers(num_classes, size=size)
        x = (centres[y] + rng.normal(0, noise, (size, dim))).astype(np.float32)
        sets.append((torch.from_numpy(x), torch.from_numpy(y)))
    return sets


def scikit(x, y, l2):
    return LogisticRegression(C=1 / l2, tol=1e-8, max_iter=10000).fit(x.double(), y)


@pytest.mark.parametrize('l2', [1e-2, 1.0, 1e3])
def test_weights_are_those_of_scikit_learn(l2):
    (x, y), *_ = made()
    expected = scikit(x, y, l2)
    weights = fit_logistic(x, y, l2, tol=1e-7).numpy()
    # The bias is free, so only its differences are determined.
    bias = weights[:, -1] - weights[:, -1].mean()
    np.testing.assert_allclose(weights[:, :-1], expected.coef_, atol=5e-3)
    np.testing.assert_allclose(
        bias, expected.intercept_ - expected.intercept_.mean(), atol=5e-3
    )


def test_the_sweep_chooses_on_validation_and_refits_on_both():
    train, val, test = made()
    values = np.logspace(-2, 4, 7).tolist()
    result = logistic_probe(train, val, test, values, tol=1e-6)
    scores = {l2: 100 * scikit(*train, l2).score(*val) for l2 in values}
    assert result['val_top1'] == pytest.approx(scores)
    assert len(set(scores.values())) > 3  # there is something to choose
    best = max(scores.values())
    assert result['l2'] == max(l2 for l2 in values if scores[l2] == best)
    both = [torch.cat(parts) for parts in zip(train, val)]
    final = scikit(*both, result['l2'])
    assert result['top1'] == pytest.approx(100 * final.score(*test))
    right = final.predict(test[0]) == test[1].numpy()
    per_class = [right[test[1].numpy() == c].mean() for c in range(4)]
    assert result['mean_per_class'] == pytest.approx(100 * np.mean(per_class))


def test_ties_go_to_the_strongest():
    sets = made(noise=0.1)  # no value is wrong on any image
    result = logistic_probe(*sets, [0.01, 1.0, 0.1])
    assert set(result['val_top1'].values()) == {100.0} and result['l2'] == 1.0


def test_the_protocol_has_45_values():
    assert len(L2_VALUES) == 45
    assert L2_VALUES[0] == pytest.approx(1e-6) and L2_VALUES[-1] == pytest.approx(1e5)
    ratios = np.diff(np.log(L2_VALUES))
    assert ratios == pytest.approx(ratios[0])


def test_a_warm_start_takes_fewer_steps(monkeypatch):
    (x, y), *_ = made()
    steps, minimize = [], scipy.optimize.minimize

    def counting(*args, **kwargs):
        result = minimize(*args, **kwargs)
        steps.append(result.nfev)
        return result

    monkeypatch.setattr(scipy.optimize, 'minimize', counting)
    fit_logistic(x, y, 1.0)
    fit_logistic(x, y, 1.0, start=fit_logistic(x, y, 1.5))
    cold, _, warm = steps
    assert warm < 0.7 * cold


def test_classes_that_training_lacks_are_not_predicted_and_do_no_harm():
    train, val, test = made()
    kept, kept_val = train[1] != 3, val[1] != 3
    train, val = (
        (x[mask], y[mask]) for (x, y), mask in ((train, kept), (val, kept_val))
    )
    result = logistic_probe(train, val, test, [1.0], tol=1e-6)
    both = [torch.cat(parts) for parts in zip(train, val)]
    expected = scikit(*both, 1.0)  # knows three classes only
    assert result['top1'] == pytest.approx(100 * expected.score(*test))


def test_mean_per_class_weighs_classes_alike():
    weights = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    x = torch.tensor([[1.0], [1.0], [1.0], [1.0]])
    assert accuracies(weights, x, torch.tensor([0, 0, 0, 1])) == dict(
        top1=75.0, mean_per_class=50.0
    )


def test_bad_input_is_named():
    train, val, test = made()
    with pytest.raises(ValueError, match='l2_values.*-1'):
        logistic_probe(train, val, test, [-1.0])
    with pytest.raises(ValueError, match='val set.*60 features and 3 labels'):
        logistic_probe(train, (val[0], val[1][:3]), test)
    with pytest.raises(ValueError, match='at least 2 classes, but got 1'):
        fit_logistic(train[0], torch.zeros(120, dtype=torch.long), 1.0)
