"""Masks in the three forms of COCO, and annotations that are none."""

import json

import numpy as np
import pytest

from mmbam.datasets.coco import decode_mask, encode_mask, read_object_masks
from mmbam.utils.errors import InputError

MASK = np.tri(4, 6, dtype=np.uint8)


def test_an_encoded_mask_survives_json():
    encoded = json.loads(json.dumps(encode_mask(MASK.astype(bool))))
    np.testing.assert_array_equal(decode_mask(encoded, 4, 6), MASK)


def test_counts_run_down_the_columns_and_start_with_zeros():
    mask = decode_mask(dict(size=[4, 6], counts=[1, 2, 21]), 4, 6)
    expected = np.zeros((4, 6), np.uint8)
    expected[1:3, 0] = 1
    np.testing.assert_array_equal(mask, expected)


def test_polygons_run_along_the_edges_of_pixels():
    squares = [[3, 0, 5, 0, 5, 3, 3, 3], [0, 3, 1, 3, 1, 4, 0, 4]]
    expected = np.zeros((4, 6), np.uint8)
    expected[0:3, 3:5] = expected[3, 0] = 1
    np.testing.assert_array_equal(decode_mask(squares, 4, 6), expected)
    assert not decode_mask([], 4, 6).any(), 'no polygon, no mask'


def test_masks_of_all_objects_of_an_image_are_joined(tmp_path):
    """Image 1 has two objects, image 2 none."""
    segmentations = encode_mask(MASK), [[3, 0, 6, 0, 6, 1, 3, 1]]
    content = dict(
        images=[dict(id=i, file_name=f'{i}.jpg', height=4, width=6) for i in (1, 2)],
        annotations=[dict(image_id=1, segmentation=s) for s in segmentations],
    )
    (tmp_path / 'instances.json').write_text(json.dumps(content))
    [(name, mask)] = read_object_masks(tmp_path / 'instances.json')
    expected = MASK.copy()
    expected[0, 3:] = 1
    assert name == '1.jpg'
    np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize('text', ['{"images"', '[1, 2]', '{"images": []}'])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / 'a.json').write_text(text)
    with pytest.raises(InputError, match='Not annotations of COCO: .*a.json'):
        list(read_object_masks(tmp_path / 'a.json'))
    with pytest.raises(InputError, match='File not found: .*gone.json'):
        list(read_object_masks(tmp_path / 'gone.json'))
