"""Histograms of pairs count what a double loop counts."""

import cv2
import numpy as np
import pytest
import torch
from mmengine.structures import BaseDataElement
from mmpretrain.registry import MODELS
from torch import nn

from mmbam.visualization import attention_histograms
from mmbam.visualization.attention_histograms import (
    KINDS,
    draw_similarities,
    embed_pairs,
    pair_histograms,
)


@pytest.fixture
def pairs():
    torch.manual_seed(0)
    return torch.randn(2, 7, 5), torch.tensor([0, 1, 0, 2, 1, 0, 2])


def slow_probabilities(latents, labels, tau):
    """Soft-max entries by the kind of pair, one at a time."""
    views, n, _ = latents.shape
    z = latents.double().numpy()
    names = [(v, i) for v in range(views) for i in range(n)]
    found = {kind: [] for kind in KINDS}
    for v, i in names:
        scores = {}
        for w, j in names:
            if (w, j) != (v, i):
                a, b = z[v, i], z[w, j]
                cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
                scores[w, j] = np.exp(cosine / tau)
        total = sum(scores.values())
        for (_, j), score in scores.items():
            kind = 0 if i == j else 1 if labels[i] == labels[j] else 2
            found[KINDS[kind]].append(score / total)
    return found


@pytest.mark.parametrize('rows', [3, 256])
@pytest.mark.parametrize('tau', [0.1, 0.5])
def test_counts_and_densities_are_those_of_numpy(pairs, tau, rows, monkeypatch):
    monkeypatch.setattr(attention_histograms, '_ROWS', rows)
    monkeypatch.setattr(attention_histograms, '_BINS', 10)
    result = pair_histograms(*pairs, tau=tau)
    assert result.uniform == pytest.approx(1 / 13)
    expected = slow_probabilities(*pairs, tau)
    assert sum(counts.sum() for counts in result.counts.values()) == 14 * 13
    for kind in KINDS:
        logs, edges = np.log10(expected[kind]), np.log10(result.edges)
        np.testing.assert_array_equal(result.counts[kind], np.histogram(logs, edges)[0])
        np.testing.assert_allclose(
            result.density(kind), np.histogram(logs, edges, density=True)[0]
        )
        area = (result.density(kind) * np.diff(edges)).sum()
        assert area == pytest.approx(1)


def test_a_kind_without_pairs_is_left_out(pairs, tmp_path):
    result = pair_histograms(pairs[0], torch.arange(7))
    assert result.counts['same class'].sum() == 0
    assert (result.density('same class') == 0).all()
    draw_similarities({'a': result, 'b': result}, tmp_path / 's.png')
    assert cv2.imread(str(tmp_path / 's.png')) is not None


def test_a_collapsed_network_can_be_drawn(tmp_path):
    result = pair_histograms(torch.ones(2, 6, 4), torch.arange(6) % 2)
    assert sum(counts.sum() for counts in result.counts.values()) == 12 * 11
    draw_similarities({'collapsed': result}, tmp_path / 's.png')


class Mean(nn.Module):
    """An embedding that is easy to know: the mean of each channel."""

    def forward(self, images):
        assert not torch.is_grad_enabled() and not self.training
        return (images.mean(dim=(2, 3)),)


def batches(num_views=3):
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        views = [
            torch.randint(0, 256, (4, 3, 8, 8), generator=generator, dtype=torch.uint8)
            for _ in range(num_views)
        ]
        samples = [BaseDataElement(gt_label=torch.tensor([k])) for k in range(4)]
        yield dict(inputs=views, data_samples=samples)


@pytest.mark.parametrize('neck', [False, True])
def test_the_first_two_views_of_every_image_are_embedded(neck):
    preprocessor = MODELS.build(
        dict(type='mmpretrain.SelfSupDataPreprocessor', mean=[1] * 3, std=[2] * 3)
    )
    projector = nn.Linear(3, 2) if neck else None
    latents, labels = embed_pairs(Mean(), preprocessor, batches(), projector)
    assert labels.tolist() == [0, 1, 2, 3] * 2
    expected = torch.cat(
        [
            torch.stack([(v.float().mean(dim=(2, 3)) - 1) / 2 for v in b['inputs'][:2]])
            for b in batches()
        ],
        dim=1,
    )
    if neck:
        expected = projector(expected).detach()
    torch.testing.assert_close(latents, expected)


def test_what_is_wrong_is_said(pairs):
    latents, labels = pairs
    with pytest.raises(ValueError, match='n labels, but got'):
        pair_histograms(latents, labels[1:])
    with pytest.raises(ValueError, match='at least 2 views of 2 images'):
        pair_histograms(latents[:1], labels)
    with pytest.raises(ValueError, match='tau must be a finite number above 0'):
        pair_histograms(latents, labels, tau=0)
    identity = MODELS.build(dict(type='mmpretrain.SelfSupDataPreprocessor'))
    with pytest.raises(ValueError, match='two views of each image'):
        embed_pairs(Mean(), identity, batches(num_views=1))
    unlabeled = [dict(b, data_samples=[BaseDataElement()] * 4) for b in batches()]
    with pytest.raises(ValueError, match='an image has no label'):
        embed_pairs(Mean(), identity, unlabeled)
