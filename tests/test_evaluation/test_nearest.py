"""Search: the answer of comparing every pair, in blocks and on several ranks."""

import pytest
import torch
from torch.nn.functional import normalize

from mmbam.evaluation import nearest as module
from mmbam.evaluation.nearest import near_duplicates, nearest


def made(number=50, copies=12):
    """Features of which some are nearly copies of others."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(number, 8, generator=generator)
    noise = 0.05 * torch.randn(copies, 8, generator=generator)
    features[-copies:] = 3 * features[:copies] + noise
    return features


def all_pairs(features):
    features = normalize(features, dim=1)
    return features @ features.T


@pytest.fixture(params=[(1024, 65536), (7, 9)], ids=['one block', 'many'])
def blocks(request, monkeypatch):
    for name, value in zip(('ROWS', '_COLUMNS'), request.param):
        monkeypatch.setattr(module, name, value)


def test_neighbours_are_those_of_a_full_sort(blocks):
    features = made()
    rows = torch.tensor([0, 3, 49])
    alike, found = nearest(features[rows], features, 10)
    expected = all_pairs(features)[rows].sort(dim=1, descending=True)
    assert torch.equal(found, expected.indices[:, :10])
    torch.testing.assert_close(alike, expected.values[:, :10])
    assert torch.equal(found[:, 0], rows)


def test_a_row_that_is_left_out_is_not_found(blocks):
    features = made()
    _, found = nearest(features[:2], features, 50, left_out=torch.tensor([0, -1]))
    assert 0 not in found[0, :49] and 1 in found[1]


def test_more_neighbours_than_rows(blocks):
    alike, found = nearest(made()[:1], made(3, 1), 9)
    assert found.shape == (1, 3) and alike.shape == (1, 3)


@pytest.mark.parametrize('most', [100, 5])
def test_duplicates_are_all_pairs_above_the_threshold(blocks, most):
    features = made()
    similarities = all_pairs(features).triu(1)
    expected = (similarities >= 0.95).nonzero()
    order = similarities[expected[:, 0], expected[:, 1]].argsort(descending=True)
    alike, pairs, total = near_duplicates(features, 0.95, most)
    assert total == len(expected) >= 12
    assert torch.equal(pairs, expected[order][:most])
    assert (alike.diff() <= 0).all()


def test_without_duplicates_there_is_no_pair(blocks):
    alike, pairs, total = near_duplicates(torch.eye(20), 0.5, 10)
    assert total == 0 and len(alike) == 0 and pairs.shape == (0, 2)


def test_bad_requests_are_named():
    with pytest.raises(ValueError, match='threshold.*1.5'):
        near_duplicates(made(), 1.5, 10)
    with pytest.raises(ValueError, match='finite'):
        near_duplicates(made() * torch.nan, 0.9, 10)
