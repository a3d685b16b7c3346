"""What several pictures share."""

import numpy as np

from mmbam.visualization.figures import overlay

COLORS = np.array([[0, 0, 0], [200, 0, 0], [0, 100, 0]])


def test_objects_are_mixed_with_their_color_and_the_rest_stays():
    image = np.full((2, 2, 3), 100, np.uint8)
    labels = np.array([[0, 1], [2, 0]], np.uint8)
    drawn = overlay(image, labels, COLORS, strength=0.25)
    assert drawn.dtype == np.uint8
    assert drawn.tolist() == [
        [[100, 100, 100], [125, 75, 75]],
        [[75, 100, 75], [100, 100, 100]],
    ]
    assert (image == 100).all(), 'the image itself is not changed'


def test_another_label_can_be_the_one_that_stays():
    image = np.full((1, 2, 3), 100, np.uint8)
    drawn = overlay(image, np.array([[-1, 0]]), COLORS, strength=1.0, ignored=-1)
    assert drawn.tolist() == [[[100, 100, 100], [0, 0, 0]]]
