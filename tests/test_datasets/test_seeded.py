"""A sample's draws depend on the seed, the epoch and the sample alone."""

import pickle
import random

import numpy as np
import torch

from mmbam.datasets.seeded import SeededSamples
from mmbam.utils.random import seed_by_key


def draws():
    return np.random.rand(), random.random(), torch.rand(()).item()


def draws_of(*key):
    seed_by_key(*key)
    return draws()


class Draws:
    """A data set whose samples are random."""

    metainfo = 'its own'

    def __getitem__(self, index):
        return index, draws()

    def __getitems__(self, indices):
        raise AssertionError('no seed')

    def __len__(self):
        return 10


def seeded(seed=0, epoch=0):
    return SeededSamples(Draws(), torch.tensor([seed, epoch]))


def test_every_generator_follows_the_key():
    first = draws_of(1, 2, 3)
    assert draws() != first
    assert draws_of(1, 2, 3) == first


def test_keys_that_differ_anywhere_share_no_draw():
    keys = [(1, 2, 3), (1, 3, 2), (0, 2, 3), (1, 2, 2**33), (1, 2, 3, 0), (1, 2)]
    found = [value for key in keys for value in draws_of(*key)]
    assert len(set(found)) == len(found)


def test_seed_epoch_and_sample_count_and_nothing_else():
    data = seeded()
    first = data[5]
    assert data[6] != first
    assert data[5] == first == pickle.loads(pickle.dumps(data))[5]
    assert seeded(epoch=1)[5] != first
    assert seeded(seed=1)[5] != first


def test_a_loop_without_epochs_says_the_place():
    index, first = seeded()[2, 7, 5]
    assert index == 5
    assert seeded(epoch=1)[2, 7, 6] == (6, first)
    assert seeded()[2, 8, 5][1] != first != seeded()[1, 7, 5][1]


def test_it_passes_for_the_data_set_inside():
    data = seeded()
    assert len(data) == 10 and data.metainfo == 'its own'
    data.metainfo = 'new'
    assert data.dataset.metainfo == 'new'
    # Newer torch would ask for all samples of a batch at once.
    assert not hasattr(data, '__getitems__')
