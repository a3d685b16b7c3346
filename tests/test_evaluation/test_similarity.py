"""Similarities of pairs: the means over all pairs, counted one by one."""

import math

import numpy as np
import pytest
import torch

from mmbam.evaluation import pair_similarities


def made(num_views=3, num_images=5, dim=4):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(num_images, dim))
    return torch.from_numpy(images + rng.normal(size=(num_views, num_images, dim)) / 2)


def slow(z):
    positive, other = [], []
    rows = [(i, v, z[v, i].numpy()) for v in range(len(z)) for i in range(len(z[0]))]
    for i, v, a in rows:
        for j, w, b in rows:
            cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
            if i != j:
                other.append(cosine)
            elif v != w:
                positive.append(cosine)
    return np.mean(positive), np.mean(other)


def test_equals_counting_pairs():
    assert pair_similarities(made()) == pytest.approx(slow(made()))


def test_constant_latents_are_all_alike():
    assert pair_similarities(torch.ones(2, 8, 4)) == pytest.approx((1, 1))


def test_without_a_pair_there_is_no_mean():
    positive, other = pair_similarities(torch.ones(1, 1, 4))
    assert math.isnan(positive) and math.isnan(other)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r'\(6, 4\)'):
        pair_similarities(torch.ones(6, 4))
