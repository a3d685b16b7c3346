"""Splits: the same share of each class, and lists that mmpretrain reads."""

import numpy as np
import pytest
from mmpretrain.registry import DATASETS

from mmbam.datasets.splits import balanced_split, write_list

LABELS = np.random.default_rng(0).permutation([0] * 40 + [1] * 20 + [2] * 3)


@pytest.mark.parametrize(
    'request_, counts',
    [
        (dict(fraction=0.1), [4, 2, 1]),
        (dict(fraction=0.99), [39, 19, 2]),
        (dict(per_class=3), [3, 3, 3]),
    ],
)
def test_each_class_gives_its_share(request_, counts):
    chosen, rest = balanced_split(LABELS, **request_)
    assert np.bincount(LABELS[chosen]).tolist() == counts
    assert sorted([*chosen, *rest]) == list(range(len(LABELS)))
    assert chosen.tolist() == sorted(chosen)


def test_the_seed_decides():
    first, again, other = (
        balanced_split(LABELS, 0.5, seed=seed)[0].tolist() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_written_lists_are_read_by_mmpretrain(tmp_path):
    samples = [(str(tmp_path / 'images/a b.png'), 1), (f'{tmp_path}/images/c.png', 0)]
    write_list(tmp_path / 'lists/train.txt', samples, tmp_path / 'images')
    assert (tmp_path / 'lists/train.txt').read_text() == 'a b.png 1\nc.png 0\n'
    dataset = DATASETS.build(
        dict(
            type='CustomDataset',
            ann_file=str(tmp_path / 'lists/train.txt'),
            data_prefix=str(tmp_path / 'images'),
        )
    )
    read = [dataset.get_data_info(i) for i in range(2)]
    assert [(info['img_path'], info['gt_label']) for info in read] == samples


@pytest.mark.parametrize(
    'request_, sentence',
    [
        (dict(), 'either fraction or per_class'),
        (dict(fraction=0.1, per_class=1), 'either fraction or per_class'),
        (dict(fraction=1.0), 'fraction.*1.0'),
        (dict(per_class=0), 'per_class.*0'),
        (dict(per_class=4), 'at least 4 samples.*class 2 has 3'),
    ],
)
def test_bad_requests_are_named(request_, sentence):
    with pytest.raises(ValueError, match=sentence):
        balanced_split(LABELS, **request_)


def test_a_class_with_one_image_is_named():
    with pytest.raises(ValueError, match='class 7 has 1'):
        balanced_split([0, 0, 7], fraction=0.5)


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match='empty'):
        balanced_split([], fraction=0.5)
