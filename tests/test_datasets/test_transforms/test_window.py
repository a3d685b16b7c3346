"""Crops are RandomResizedCrop's without a box and centred on the box with one."""

import numpy as np
import pytest
import torch
from mmpretrain.datasets.transforms import RandomResizedCrop
from scipy import stats
from torchvision import transforms as T

from mmbam.datasets.transforms.window import check_box, sample_window

AREA, ASPECT = (0.05, 0.25), (3 / 4, 4 / 3)


def windows(count, size, area=AREA, **kwargs):
    np.random.seed(0)
    return np.array(
        [sample_window(*size, area, ASPECT, **kwargs) for _ in range(count)]
    )


@pytest.mark.parametrize('size', [(375, 500), (40, 30), (5, 3000), (900, 2), (1, 1)])
@pytest.mark.parametrize('area', [(0.05, 0.25), (0.25, 1.0), (0.9, 1.0)])
def test_without_a_box_the_draws_are_those_of_mmpretrain(size, area):
    crop = RandomResizedCrop(1, crop_ratio_range=area)
    image = np.empty((*size, 3), np.uint8)
    ours = windows(50, size, area)
    np.random.seed(0)
    theirs = [crop.rand_crop_params(image) for _ in range(50)]
    np.testing.assert_array_equal(ours, theirs)


def test_without_a_box_the_distribution_is_that_of_torchvision():
    torch.manual_seed(0)
    image = torch.empty(3, 375, 500)
    theirs = np.array(
        [T.RandomResizedCrop.get_params(image, AREA, ASPECT) for _ in range(3000)]
    )
    ours = windows(3000, (375, 500))
    for mine, reference in zip(ours.T, theirs.T):
        assert stats.ks_2samp(mine, reference).pvalue > 0.01


def test_a_box_changes_neither_size_nor_ratio():
    with_box = windows(3000, (375, 500), box=(0.2, 0.3, 0.6, 0.5))
    without = windows(3000, (375, 500))
    for mine, reference in zip(with_box.T[2:], without.T[2:]):
        assert stats.ks_2samp(mine, reference).pvalue > 0.01


@pytest.mark.parametrize('alpha', [0.6, 1.0, 3.0])
def test_centres_follow_beta_across_the_box(alpha):
    box = (0.3, 0.4, 0.6, 0.65)  # far enough inside that no crop meets the border
    top, left, h, w = windows(3000, (4000, 4000), box=box, alpha=alpha).T
    down = ((top + h / 2) / 4000 - box[0]) / (box[2] - box[0])
    right = ((left + w / 2) / 4000 - box[1]) / (box[3] - box[1])
    for centres in (down, right):
        assert stats.kstest(centres, stats.beta(alpha, alpha).cdf).pvalue > 0.01
    assert abs(np.corrcoef(down, right)[0, 1]) < 0.05


@pytest.mark.parametrize('size', [(375, 500), (5, 3000), (1, 1)])
@pytest.mark.parametrize('box', [(0, 0, 1, 1), (0, 0, 0.05, 0.05), (0.9, 0.9, 1, 1)])
def test_crops_stay_inside_the_image(size, box):
    for area in (AREA, (0.25, 1.0), (0.99, 1.0)):
        top, left, h, w = windows(200, size, area, box=box).T
        assert (h > 0).all() and (w > 0).all()
        assert (top >= 0).all() and (top + h <= size[0]).all()
        assert (left >= 0).all() and (left + w <= size[1]).all()


def test_a_whole_image_box_reaches_both_borders():
    top, left, h, w = windows(500, (375, 500), box=(0, 0, 1, 1)).T
    for first, room in ((top, 375 - h), (left, 500 - w)):
        assert (first == 0).any() and (first == room).any()
        # Clipping centres instead of their range would put every other crop there.
        assert ((first == 0) | (first == room)).mean() < 0.3


def test_the_fall_back_of_a_long_image_follows_the_box():
    left = windows(50, (10, 3000), (0.9, 1.0), box=(0, 0.8, 1, 0.9))[:, 1]
    assert (left > 2300).all() and (left < 2750).all()


@pytest.mark.parametrize(
    'box', ['middle', (0, 0, 1), (0.5, 0, 0.4, 1), (0, 0, 1, 1.1), (-0.1, 0, 1, 1)]
)
def test_a_wrong_box_is_refused(box):
    with pytest.raises(ValueError, match='box must be'):
        check_box(box)
