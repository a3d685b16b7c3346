"""Strips of videos: a row for each video, with masks and outlines."""

import cv2
import pytest

from mmbam.evaluation.video import read_davis
from mmbam.visualization import video_strips
from mmbam.visualization.video_strips import draw_strips
from tests.helpers.videos import make_davis, make_odd


@pytest.mark.parametrize('make', [make_davis, make_odd])
def test_a_row_for_each_video(tmp_path, make, monkeypatch):
    videos = read_davis(make(tmp_path / 'DAVIS'))
    results = tmp_path / 'DAVIS/Annotations/480p'
    draw_strips(videos, results, tmp_path / 'a.png', '')
    monkeypatch.setattr(video_strips, 'COLUMNS', 2)
    draw_strips(videos[:1], results, tmp_path / 'b.png', '')
    a, b = (cv2.imread(str(tmp_path / name)) for name in ('a.png', 'b.png'))
    assert a.shape[1] == pytest.approx(3 * b.shape[1], abs=2)  # 6 and 2 columns
    rows = (a.shape[0] - 0.9 * 110) / (b.shape[0] - 0.9 * 110)
    assert rows == pytest.approx(len(videos), abs=0.05)
    with pytest.raises(ValueError, match='no videos'):
        draw_strips([], results, tmp_path / 'c.png', '')


def test_frames_without_an_annotation_are_drawn_too(tmp_path):
    root = make_odd(tmp_path / 'DAVIS', frames=1)
    (video,) = read_davis(root, scored=False)
    draw_strips([video], root / 'Annotations/480p', tmp_path / 'a.png', '')
    assert cv2.imread(str(tmp_path / 'a.png')) is not None
