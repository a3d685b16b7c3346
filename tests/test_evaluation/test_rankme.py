"""RankMe: its definition, its bounds, and ranks that share the features."""

import math

import numpy as np
import pytest
import torch

from mmbam.evaluation import rankme


def made(size=40, dim=12):
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(size, dim)) * np.logspace(0, -3, dim))


@pytest.mark.parametrize('size, dim', [(40, 12), (7, 12)])
def test_equals_the_definition(size, dim):
    x = made(size, dim)
    values = np.linalg.svd(x.numpy(), compute_uv=False)
    shares = values / values.sum()
    expected = np.exp(-(shares * np.log(shares)).sum())
    assert 2 < expected < dim / 2
    assert rankme(x) == pytest.approx(expected, rel=1e-5)


def test_bounds():
    assert rankme(torch.eye(5)) == pytest.approx(5)
    assert rankme(torch.ones(8, 5)) == pytest.approx(1, abs=1e-5)
    assert rankme(torch.zeros(8, 5)) == 1


def test_features_that_are_not_finite_have_no_rank():
    assert math.isnan(rankme(torch.full((3, 2), torch.inf)))


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r'\(2, 3, 4\)'):
        rankme(torch.zeros(2, 3, 4))
