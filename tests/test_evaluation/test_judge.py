"""The judge without labels: signals against their definitions, and its order."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from mmbam.evaluation.judge import (
    SCORES,
    Signals,
    correlations,
    lidar,
    measure_signals,
    ranking,
    spectral_decay,
)
from mmbam.utils.errors import InputError


def views(noise: float, dims: int = 6, n: int = 60, width: int = 8) -> torch.Tensor:
    """Three views of images that differ in some of the directions, and noise."""
    generator = torch.Generator().manual_seed(0)
    images = torch.zeros(n, width, dtype=torch.float64)
    images[:, :dims] = torch.randn(n, dims, generator=generator, dtype=torch.float64)
    shape = (3, n, width)
    return images + noise * torch.randn(shape, generator=generator).double() + 5


def test_lidar_is_its_definition():
    x = views(0.3).numpy()
    means, grand = x.mean(0), x.mean((0, 1))
    between = sum(np.outer(m - grand, m - grand) for m in means) / len(means)
    within = sum(
        np.outer(x[v, i] - means[i], x[v, i] - means[i])
        for v in range(3)
        for i in range(len(means))
    ) / (len(means) * 2)
    within += 1e-4 * np.eye(8)
    values, vectors = np.linalg.eigh(within)
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    shares = np.linalg.eigvalsh(root @ between @ root)
    shares = shares / shares.sum()
    expected = math.exp(-(shares * np.log(shares)).sum())
    assert lidar(torch.from_numpy(x)) == pytest.approx(expected, rel=1e-9)


def test_lidar_counts_directions_that_tell_images_apart():
    assert lidar(views(0.01, dims=6)) == pytest.approx(6, abs=0.4)
    assert lidar(views(0.01, dims=2)) == pytest.approx(2, abs=0.2)
    # Directions of views alone do not count: RankMe cannot tell the difference.
    x = views(0.01, dims=2)
    generator = torch.Generator().manual_seed(1)
    x[:, :, 4:] += torch.randn(3, 60, 4, generator=generator).double()
    assert lidar(x) < 2.3
    assert lidar(torch.ones(2, 20, 4)) == 1.0


@pytest.mark.parametrize('alpha', [0.5, 1.0, 2.0])
def test_the_decay_of_a_power_law_is_its_exponent(alpha):
    generator = torch.Generator().manual_seed(0)
    q, _ = torch.linalg.qr(torch.randn(200, 30, generator=generator).double())
    q = q - q.mean(0)
    q, _ = torch.linalg.qr(q)  # columns of mean 0 and of length 1
    scales = torch.arange(1, 31).double() ** (-alpha / 2)
    assert spectral_decay(q * scales + 3) == pytest.approx(alpha, rel=1e-6)
    assert math.isnan(spectral_decay(torch.ones(5, 3)))


def test_entropies_are_those_of_the_loss_and_similarities_of_centered_features():
    x = views(0.5)
    signals = measure_signals(x)
    centered = (x - x.mean((0, 1))).flatten(0, 1)
    z = torch.nn.functional.normalize(centered, dim=1)
    cosines = z @ z[:120].T  # columns: the first two views
    same = torch.arange(180)[:, None] % 60 == torch.arange(120) % 60
    a = (cosines / 0.1).masked_fill(same, -torch.inf).softmax(1)
    entropy = -torch.special.xlogy(a, a).sum(1).mean().item()
    assert signals.entropy_a == pytest.approx(entropy, rel=1e-6)
    assert signals.entropy_b < signals.entropy_a
    whole = z @ z.T
    pairs = torch.arange(180)[:, None] % 60 == torch.arange(180) % 60
    others = whole[~pairs].mean().item()
    positives = (whole[pairs].sum().item() - 180) / (pairs.sum().item() - 180)
    assert (signals.positive, signals.other) == pytest.approx((positives, others))
    assert not signals.collapsed
    # Latents change nothing but the entropies.
    other = measure_signals(x, latents=views(0.1))
    assert other.entropy_a != signals.entropy_a
    assert replace(other, entropy_a=0, entropy_b=0) == replace(
        signals, entropy_a=0, entropy_b=0
    )


def test_dead_networks_are_recognised_and_come_last():
    constant = torch.ones(2, 30, 8) + 1e-9 * torch.randn(2, 30, 8)
    torch.manual_seed(0)
    blind = torch.randn(2, 300, 64)  # views of an image have nothing in common
    line = torch.randn(30, 1).expand(2, 30, 1) * torch.ones(8)
    broken = torch.full((2, 30, 8), math.nan)
    dead = dict(constant=constant, blind=blind, line=line, broken=broken)
    found = {name: measure_signals(x) for name, x in dead.items()}
    assert all(signals.collapsed for signals in found.values())
    found['noisy'] = measure_signals(views(1.0))
    found['clean'] = measure_signals(views(0.1))
    assert ranking(found)[:2] == ['clean', 'noisy']
    assert set(ranking(found)[2:]) == set(dead)


GOOD = Signals(9, 9, 1.0, 0.8, 0.0, 60, 3, 2)


def test_the_ranking_is_that_of_the_mean_rank():
    candidates = dict(
        a=replace(GOOD, lidar=5, positive=0.5, agreement=50),  # ranks 3, 2, 3
        b=replace(GOOD, lidar=8, positive=0.4, agreement=60),  # ranks 1, 3, 2
        c=replace(GOOD, lidar=6, positive=0.6, agreement=70),  # ranks 2, 1, 1
    )
    assert ranking(candidates) == ['c', 'b', 'a']
    assert ranking(candidates, ['lidar']) == ['b', 'c', 'a']
    candidates['a'] = replace(GOOD, lidar=99, positive=0.0)  # collapsed
    assert ranking(candidates, ['lidar']) == ['b', 'c', 'a']
    near, far = replace(GOOD, alpha=0.9), replace(GOOD, alpha=1.4)
    assert ranking(dict(far=far, near=near), ['alpha']) == ['near', 'far']
    with pytest.raises(InputError, match=r"rankme, lidar.*\['luck'\]"):
        ranking(candidates, ['luck'])


def test_correlations_are_spearmans():
    rng = np.random.default_rng(0)
    candidates = {
        str(i): Signals(*rng.uniform(1, 9, 3), 0.9, 0.1, *rng.uniform(1, 9, 3))
        for i in range(8)
    }
    accuracies = {str(i): float(v) for i, v in enumerate(rng.uniform(0, 99, 8))}
    found = correlations(candidates, dict(reversed(accuracies.items())))
    truth = list(accuracies.values())
    for name in ('rankme', 'lidar', 'alpha', 'agreement', 'sharpness'):
        values = [SCORES[name](signals) for signals in candidates.values()]
        assert found[name] == pytest.approx(spearmanr(values, truth).statistic)
    order = ranking(candidates)
    best_last = [-order.index(name) for name in candidates]
    assert found['ranking'] == pytest.approx(spearmanr(best_last, truth).statistic)
    assert math.isnan(found['gap'])  # the same for all
    with pytest.raises(InputError, match='same networks'):
        correlations(candidates, {'0': 1.0})


def test_wrong_features_are_named():
    with pytest.raises(InputError, match=r'at least 2 views.*\(1, 30, 8\)'):
        measure_signals(torch.zeros(1, 30, 8))
    with pytest.raises(InputError, match='more than 10 images, but got 5'):
        measure_signals(torch.zeros(2, 5, 8))
