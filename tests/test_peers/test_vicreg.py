"""VICReg: its loss against the formula, one and two ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mmbam.peers import VICRegHead
from tests.helpers.distributed import run_ranks


def latents() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    # Some deviations above 1 and some below: both sides of the hinge.
    scales = torch.tensor([0.3, 2.0, 0.8, 1.5])
    return torch.randn(2, 6, 4, generator=generator) * scales


def direct_loss(views, invariance, variance, covariance):
    """The sums of the paper, one term after the other."""
    (n, d), spread, others = views[0].shape, 0.0, 0.0
    distance = ((views[0] - views[1]) ** 2).sum() / (n * d)
    for z in views:
        matrix = torch.cov(z.T)
        for i in range(d):
            spread += max(1 - (matrix[i, i] + 1e-4).sqrt(), torch.zeros(())) / d / 2
            others += sum(matrix[i, j] ** 2 for j in range(d) if j != i) / d
    return invariance * distance + variance * spread + covariance * others


@pytest.mark.parametrize('weights', [(25, 25, 1), (1, 2, 3)])
def test_loss_and_gradient_are_those_of_the_sums(weights):
    views = latents().requires_grad_()
    expected = direct_loss(views, *weights)
    value = VICRegHead(*weights).loss(*views)
    torch.testing.assert_close(value, expected)
    of_sums, of_loss = (torch.autograd.grad(x, views)[0] for x in (expected, value))
    torch.testing.assert_close(of_loss, of_sums)


@pytest.mark.parametrize('name', ['invariance', 'variance', 'covariance'])
def test_wrong_weights_are_named(name):
    with pytest.raises(ValueError, match=f'{name} .* got -1'):
        VICRegHead(**{name: -1})


def gradient_of_share(splits):
    from mmengine.dist import get_rank

    views = latents()[:, splits[get_rank()]].requires_grad_()
    loss = VICRegHead().loss(*views)
    loss.backward()
    return loss.item(), views.grad.numpy()


def test_two_ranks_give_the_loss_and_gradient_of_one():
    ((loss, grad),) = run_ranks(gradient_of_share, 1, [slice(0, 6)])
    halves = run_ranks(gradient_of_share, 2, [slice(0, 3), slice(3, 6)])
    assert np.mean([half[0] for half in halves]) == pytest.approx(loss, rel=1e-5)
    # DistributedDataParallel takes the mean over ranks.
    parts = np.concatenate([half[1] for half in halves], axis=1) / 2
    np.testing.assert_allclose(parts, grad, rtol=1e-4, atol=1e-6)
