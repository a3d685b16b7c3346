"""Strips of videos: drawn with masks, outlines and as many frames as there are."""

import cv2
import numpy as np
import pytest

from mmbam.evaluation.video import read_davis
from mmbam.visualization.video import draw_strips, overlay
from tests.helpers.videos import make_davis, make_odd


def test_objects_are_coloured_and_the_rest_is_not():
    image = np.full((4, 4, 3), 100, np.uint8)
    labels = np.zeros((4, 4), np.uint8)
    labels[0, 0], labels[1, 1] = 1, 2
    drawn = overlay(image, labels).astype(int)
    assert (drawn[labels == 0] == 100).all()
    red, green = drawn[0, 0], drawn[1, 1]
    assert red[0] > red[1] == red[2] and green[1] > green[0] == green[2]


@pytest.mark.parametrize('make', [make_davis, make_odd])
def test_a_row_for_each_video(tmp_path, make):
    videos = read_davis(make(tmp_path / 'DAVIS'))
    results = tmp_path / 'DAVIS/Annotations/480p'
    draw_strips(videos, results, tmp_path / 'a.png')
    draw_strips(videos[:1], results, tmp_path / 'b.png', columns=2)
    a, b = (cv2.imread(str(tmp_path / name)) for name in ('a.png', 'b.png'))
    assert a.shape[1] > 2.5 * b.shape[1] and a.shape[0] >= b.shape[0]
    assert a.std() > 10
    with pytest.raises(ValueError, match='no videos'):
        draw_strips([], results, tmp_path / 'c.png')


def test_frames_without_an_annotation_are_drawn_too(tmp_path):
    root = make_odd(tmp_path / 'DAVIS', frames=1)
    (video,) = read_davis(root, scored=False)
    draw_strips([video], root / 'Annotations/480p', tmp_path / 'a.png')
    assert cv2.imread(str(tmp_path / 'a.png')) is not None
