"""The judge without labels: its signals, its choice, and how its trust is measured."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from mmbam.evaluation.judge import (
    SCORES,
    Signals,
    best_of,
    correlations,
    is_collapsed,
    measure_signals,
)
from mmbam.evaluation.trust import measure_trust
from mmbam.evaluation.unlabeled import neighbour_agreement
from mmbam.evaluation.verdict import Judged, Run, choose
from mmbam.utils.errors import InputError


def views(noise: float, dims: int = 6, n: int = 60, width: int = 8) -> torch.Tensor:
    """Two views of images that differ in some of the directions, and noise."""
    generator = torch.Generator().manual_seed(0)
    images = torch.zeros(n, width, dtype=torch.float64)
    images[:, :dims] = torch.randn(n, dims, generator=generator, dtype=torch.float64)
    shape = (2, n, width)
    return images + noise * torch.randn(shape, generator=generator).double() + 5


def signals_of(agreement, gap=0.5, rank=9.0):
    return Signals(agreement, gap, 0.0, 3.0, rank)


def test_entropy_is_that_of_the_loss_and_similarities_of_centered_features():
    x = views(0.5)
    signals = measure_signals(x)
    centered = (x - x.mean((0, 1))).flatten(0, 1)
    z = torch.nn.functional.normalize(centered, dim=1)
    cosines = z @ z.T
    same = torch.arange(120)[:, None] % 60 == torch.arange(120) % 60
    a = (cosines / 0.1).masked_fill(same, -torch.inf).softmax(1)
    entropy = -torch.special.xlogy(a, a).sum(1).mean().item()
    assert signals.entropy == pytest.approx(entropy, rel=1e-6)
    others = cosines[~same].mean().item()
    positives = (cosines[same].sum().item() - 120) / 120
    assert (signals.positive, signals.other) == pytest.approx((positives, others))
    assert signals.gap == signals.positive - signals.other
    assert signals.agreement == neighbour_agreement(x[0], x[1], 20)


def test_networks_no_better_than_a_random_one_are_collapsed():
    constant = torch.ones(2, 30, 8) + 1e-9 * torch.randn(2, 30, 8)
    torch.manual_seed(0)
    blind = torch.randn(2, 300, 64)  # views of an image have nothing in common
    line = torch.randn(30, 1).expand(2, 30, 1) * torch.ones(8)
    broken = torch.full((2, 30, 8), math.nan)
    random = measure_signals(views(3.0))
    for x in (constant, blind, line, broken):
        assert is_collapsed(measure_signals(x), random)
    assert not is_collapsed(measure_signals(views(1.0)), random)
    assert is_collapsed(measure_signals(views(1.0)), measure_signals(views(0.1)))


def test_the_best_is_that_whose_neighbors_agree_most_and_later_of_equals():
    candidates = dict(a=signals_of(40, gap=0.9), b=signals_of(50), c=signals_of(50))
    assert best_of(candidates) == 'c'
    assert best_of(dict(reversed(candidates.items()))) == 'b'
    assert best_of({}) is None


def test_correlations_are_spearmans():
    rng = np.random.default_rng(0)
    candidates = {
        str(i): Signals(rng.uniform(0, 50), 0.9, 0.1, *rng.uniform(1, 9, 2))
        for i in range(8)
    }
    accuracies = {str(i): float(v) for i, v in enumerate(rng.uniform(0, 99, 8))}
    found = correlations(candidates, dict(reversed(accuracies.items())))
    truth = list(accuracies.values())
    for name in ('agreement', 'entropy', 'rankme'):
        values = [SCORES[name](signals) for signals in candidates.values()]
        assert found[name] == pytest.approx(spearmanr(values, truth).statistic)
    assert math.isnan(found['gap'])  # the same for all
    with pytest.raises(InputError, match='same networks'):
        correlations(candidates, {'0': 1.0})


def verdict_of(**runs):
    """A verdict on runs of (agreement, k-NN, collapsed), beside a k-NN of 20."""
    judged = [
        Judged(run, f'epoch_{i}.pth', signals_of(agreement), collapsed, knn)
        for run, found in runs.items()
        for i, (agreement, knn, collapsed) in enumerate(found)
    ]
    random = {run: Judged(run, 'random', signals_of(5), knn=20.0) for run in runs}
    named = [Run(run, None, [], []) for run in runs]
    return choose(judged, named, random, 100, labeled=True)


def test_trust_is_within_runs_at_their_ends_and_over_all():
    found = verdict_of(
        up=[(10, 30, False), (20, 40, False), (30, 50, False)],
        down=[(12, 45, False), (14, 44, False), (16, 42.5, False)],
        flat=[(8, 10, True), (7, 12, True), (6, 11, True)],
        missed=[(22, 21, False), (11, 19, False), (9, math.nan, False)],
    )
    trust = measure_trust(found)
    of = trust['correlations']
    assert of['runs']['up']['agreement'] == 1 and of['runs']['down']['agreement'] == -1
    assert of['runs']['flat']['agreement'] == pytest.approx(-0.5)
    assert math.isnan(of['runs']['missed']['agreement'])  # of two
    assert of['within']['number'] == 3
    assert of['within']['agreement'] == pytest.approx(-0.5 / 3)
    assert of['last']['number'] == 4 and of['all']['number'] == 11
    ends = spearmanr([30, 16, 6, 11], [50, 42.5, 11, 19]).statistic
    assert of['last']['agreement'] == pytest.approx(ends)
    of = trust['choices']
    behind = {run: one['behind'] for run, one in of['runs'].items()}
    assert math.isnan(behind.pop('flat'))  # nothing was chosen
    assert behind == dict(up=0, down=2.5, missed=0)
    assert of['mean']['behind'] == pytest.approx(2.5 / 3)
    assert of['worst'] == dict(behind=2.5, last_behind=2.5)
    assert found.best == of['overall']['chosen'] == 'up/epoch_2.pth'
    assert of['overall']['behind'] == 0
    assert of['overall']['last_behind'] == 50 - (50 + 42.5 + 11 + 19) / 4
    assert trust['collapse']['by_labels'] == ['flat', 'missed']
    assert trust['collapse']['recognized'] == ['flat']


def test_wrong_features_are_named():
    with pytest.raises(InputError, match=r'shape \(2, n, d\).*\(1, 30, 8\)'):
        measure_signals(torch.zeros(1, 30, 8))
    with pytest.raises(InputError, match='more than 20 images, but got 5'):
        measure_signals(torch.zeros(2, 5, 8))
