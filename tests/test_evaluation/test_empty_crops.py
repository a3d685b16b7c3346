"""The share of empty crops is a count of crops."""

import json

import cv2
import numpy as np
import pytest

from mmbam.datasets.transforms.window import sample_window
from mmbam.evaluation.empty_crops import read_coco_masks, share_of_empty_crops

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


def coco_file(path, *segmentations):
    """Image 1 has the segmentations, image 2 has none."""
    sizes = dict(height=4, width=6)
    content = dict(
        images=[dict(id=i, file_name=f'{i}.jpg', **sizes) for i in (1, 2)],
        annotations=[dict(image_id=1, segmentation=s) for s in segmentations],
    )
    path.write_text(json.dumps(content))
    return path


def test_masks_of_all_objects_of_an_image_are_joined(tmp_path):
    run_lengths = dict(size=[4, 6], counts=[1, 2, 21])  # rows 1 and 2 of column 0
    polygon = [[3, 0, 5, 0, 5, 3, 3, 3]]
    path = coco_file(tmp_path / 'instances.json', run_lengths, polygon)
    [(name, mask)] = read_coco_masks(path)
    expected = np.zeros((4, 6), np.uint8)
    expected[1:3, 0] = 1
    cv2.rectangle(expected, (3, 0), (5, 3), 1, cv2.FILLED)
    assert name == '1.jpg'
    np.testing.assert_array_equal(mask, expected)


def test_compressed_masks_are_read_where_pycocotools_is(tmp_path):
    coco = pytest.importorskip('pycocotools.mask')
    mask = np.asfortranarray(np.tri(4, 6, dtype=np.uint8))
    encoded = coco.encode(mask)
    encoded['counts'] = encoded['counts'].decode()
    [(_, found)] = read_coco_masks(coco_file(tmp_path / 'instances.json', encoded))
    np.testing.assert_array_equal(found, mask)
