"""The share of empty crops is a count of crops."""

import numpy as np
import pytest

from mmbam.datasets.transforms.window import sample_window
from mmbam.evaluation.empty_crops import share_of_empty_crops

AREA, ASPECT = (0.05, 0.25), (3 / 4, 4 / 3)


def corner_masks():
    """Objects in the lower right ninth of images of two sizes."""
    masks = [np.zeros((60, 90), np.uint8), np.zeros((48, 48), bool)]
    for mask in masks:
        mask[2 * mask.shape[0] // 3 :, 2 * mask.shape[1] // 3 :] = 1
    return masks


def test_the_share_equals_a_slow_count():
    masks = corner_masks()
    np.random.seed(3)
    empty = 0
    for mask in masks:
        for _ in range(50):
            top, left, h, w = sample_window(*mask.shape, AREA, ASPECT)
            empty += not mask[top : top + h, left : left + w].any()
    found = share_of_empty_crops(masks, [None, None], AREA, crops=50, seed=3)
    assert found == empty / 100
    assert 0.2 < found < 0.9


def test_boxes_on_the_objects_leave_no_crop_empty():
    masks = corner_masks()
    box = (2 / 3, 2 / 3, 1, 1)
    assert share_of_empty_crops(masks, [box, box], AREA) == 0
    assert share_of_empty_crops(masks, [(0, 0, 0.2, 0.2)] * 2, AREA) > 0.9


def test_the_random_state_is_left_alone():
    np.random.seed(0)
    expected = np.random.rand()
    np.random.seed(0)
    share_of_empty_crops(corner_masks(), [None, None], AREA)
    assert np.random.rand() == expected


def test_no_images_are_refused():
    with pytest.raises(ValueError, match='no images to crop'):
        share_of_empty_crops([], [], AREA)
