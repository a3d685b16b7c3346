"""What several pictures share."""

import numpy as np

from mmbam.visualization.figures import overlay

COLORS = np.array([[0, 0, 0], [200, 0, 0], [0, 100, 0]])


def test_objects_are_mixed_with_their_color_and_the_rest_stays():
    image = np.full((2, 2, 3), 100, np.uint8)
    labels = np.array([[0, 1], [2, 0]], np.uint8)
    drawn = overlay(image, labels, COLORS)
    assert drawn.dtype == np.uint8
    expected = [
        [[100, 100, 100], [155, 45, 45]],
        [[45, 100, 45], [100, 100, 100]],
    ]
    np.testing.assert_allclose(drawn, expected, atol=1)
    assert (image == 100).all(), 'the image itself is not changed'


def test_another_label_can_be_the_one_that_stays():
    image = np.full((1, 2, 3), 100, np.uint8)
    drawn = overlay(image, np.array([[-1, 0]]), COLORS, ignored=-1)
    np.testing.assert_allclose(drawn, [[[100, 100, 100], [45, 45, 45]]], atol=1)
