"""Clustering: scores by their definitions, over fixed draws of classes."""

from collections import Counter
from itertools import combinations
from math import log

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from mmbam.evaluation import cluster_scores


def made(num_classes=6, per_class=12, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(num_classes), per_class)
    x = rng.normal(size=(num_classes, 5))[y] * 2 + rng.normal(0, noise, (len(y), 5))
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


def slow_nmi(a, b):
    """Mutual information over the mean of the entropies, by counting."""

    def entropy(counts):
        return -sum(c / len(a) * log(c / len(a)) for c in counts.values())

    entropies = entropy(Counter(a)), entropy(Counter(b))
    mutual = sum(entropies) - entropy(Counter(zip(a, b)))
    return 100 * mutual / (sum(entropies) / 2)


def slow_ari(a, b):
    """Rand index over all pairs, corrected for chance (Hubert and Arabie)."""
    pairs = [(a[i] == a[j], b[i] == b[j]) for i, j in combinations(range(len(a)), 2)]
    both = sum(p and q for p, q in pairs)
    in_a, in_b = sum(p for p, _ in pairs), sum(q for _, q in pairs)
    chance = in_a * in_b / len(pairs)
    return 100 * (both - chance) / ((in_a + in_b) / 2 - chance)


def test_scores_are_those_of_the_definitions():
    x, y = made()
    scores = cluster_scores(x, y, num_classes=[3, 6], draws=4, seed=5)
    for t in (3, 6):
        nmi, ari = [], []
        for draw in range(4):
            rng = np.random.default_rng([5, t, draw])
            chosen = np.isin(y, rng.choice(6, t, replace=False))
            means = KMeans(t, n_init=1, random_state=int(rng.integers(2**31)))
            clusters = means.fit_predict(x[chosen]).tolist()
            labels = y[chosen].tolist()
            assert len(set(labels)) == t
            nmi.append(slow_nmi(labels, clusters))
            ari.append(slow_ari(labels, clusters))
        assert 20 < np.mean(nmi) < 99  # neither trivial nor hopeless
        expected = dict(nmi=np.mean(nmi), ari=np.mean(ari))
        expected.update(nmi_std=np.std(nmi), ari_std=np.std(ari))
        assert scores[t] == pytest.approx(expected)


def test_well_separated_classes_score_100_and_noise_about_0():
    x, y = made(num_classes=3, noise=0.01)
    assert cluster_scores(x, y)[3]['nmi'] == pytest.approx(100)
    x, y = made(num_classes=3, per_class=200)
    assert abs(cluster_scores(torch.randn_like(x), y)[3]['ari']) < 5


@pytest.mark.parametrize(
    'classes, expected', [(6, [6]), (10, [10]), (45, [10, 20, 40])]
)
def test_by_default_the_numbers_of_the_paper_that_the_data_has(classes, expected):
    x, y = made(num_classes=classes, per_class=2)
    assert list(cluster_scores(x, y, draws=1)) == expected


def test_bad_input_is_named():
    x, y = made()
    with pytest.raises(ValueError, match='2 to the 6 classes.*one is 7'):
        cluster_scores(x, y, num_classes=[3, 7])
    with pytest.raises(ValueError, match='has 1'):
        cluster_scores(x, torch.zeros_like(y))
    with pytest.raises(ValueError, match='draws'):
        cluster_scores(x, y, draws=0)
    with pytest.raises(ValueError, match='72 features and 3 labels'):
        cluster_scores(x, y[:3])
