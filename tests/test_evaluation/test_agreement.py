"""Agreement of neighbours between two views."""

import pytest
import torch

from mmbam.evaluation import neighbour_agreement
from mmbam.evaluation.accuracy import standard_error


def slow(first, second, k):
    shares = []
    for i in range(len(first)):
        sets = []
        for z in (first, second):
            similar = torch.cosine_similarity(z[i : i + 1], z, dim=1)
            similar[i] = -2
            sets.append({*similar.argsort(descending=True)[:k].tolist()})
        shares.append(len(sets[0] & sets[1]) / k)
    return 100 * sum(shares) / len(shares)


def test_it_is_the_share_of_common_neighbours(monkeypatch):
    monkeypatch.setattr('mmbam.evaluation.unlabeled._ROWS', 16)
    torch.manual_seed(0)
    first = torch.randn(50, 8)
    second = first + 0.5 * torch.randn(50, 8)
    agreement = neighbour_agreement(first, second, 5)
    assert agreement == pytest.approx(slow(first, second, 5))
    assert 20 < agreement < 90
    # Length is no matter: neighbours are those of the largest cosine.
    assert neighbour_agreement(first, first * torch.rand(50, 1)) == 100


def test_a_collapsed_network_agrees_by_chance():
    same = torch.ones(200, 4)
    assert neighbour_agreement(same, same) < 15  # chance is 5


def test_too_few_images_are_refused():
    with pytest.raises(ValueError, match='above k of at least 1'):
        neighbour_agreement(torch.rand(10, 3), torch.rand(10, 3), 10)


def test_the_error_of_an_accuracy_follows_from_the_number_of_images():
    assert standard_error(50, 1000) == pytest.approx(1.58, abs=0.01)
    assert standard_error(50, 5000) == pytest.approx(0.71, abs=0.01)
    assert standard_error(100, 15) > 5  # without a miss, but of few images
