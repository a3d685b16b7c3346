"""A sample's draws depend on the seed, the epoch and the sample alone."""

import random

import numpy as np
import torch
from mmcv.transforms import BaseTransform
from mmpretrain.datasets.transforms import MultiView

from mmbam.datasets.transforms import SeedBySample
from mmbam.datasets.transforms.seed_by_sample import seed_by_key


def draws():
    return np.random.rand(), random.random(), torch.rand(()).item()


def draws_of(*key):
    seed_by_key(*key)
    return draws()


def test_every_generator_follows_the_key():
    first = draws_of(1, 2, 3)
    assert draws() != first
    assert draws_of(1, 2, 3) == first


def test_keys_that_differ_anywhere_share_no_draw():
    keys = [(1, 2, 3), (1, 3, 2), (0, 2, 3), (1, 2, 2**33), (1, 2, 3, 0), (1, 2)]
    found = [value for key in keys for value in draws_of(*key)]
    assert len(set(found)) == len(found)


def clock(seed, epoch):
    return torch.tensor([seed, epoch])


def sampled(transform, index):
    transform(dict(sample_idx=index))
    return draws()


def test_seed_epoch_and_sample_count_and_nothing_else():
    transform = SeedBySample()
    transform.set_clock(clock(0, 0), offset=0)
    first = sampled(transform, 5)
    assert sampled(transform, 6) != first
    assert sampled(transform, 5) == first
    for other in (clock(0, 1), clock(1, 0)):
        transform.set_clock(other, offset=0)
        assert sampled(transform, 5) != first


def test_data_sets_side_by_side_do_not_draw_alike():
    near, far = SeedBySample(), SeedBySample()
    near.set_clock(clock(0, 0), offset=0)
    far.set_clock(clock(0, 0), offset=5)
    assert sampled(far, 0) == sampled(near, 5) != sampled(near, 0)


def test_without_a_clock_nothing_is_seeded():
    np.random.seed(0)
    expected = np.random.rand(2)
    np.random.seed(0)
    found = []
    for _ in range(2):
        SeedBySample()(dict(sample_idx=0))
        found.append(np.random.rand())
    np.testing.assert_array_equal(found, expected)


def test_the_views_of_a_sample_differ():
    class Draw(BaseTransform):
        def transform(self, results):
            return dict(results, img=np.random.rand())

    seed = SeedBySample()
    seed.set_clock(clock(0, 0), offset=0)
    views = MultiView([[Draw()]], num_views=[8])(seed(dict(sample_idx=0)))['img']
    assert len(set(views)) == 8
