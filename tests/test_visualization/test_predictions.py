"""Pictures of detections and segmentations."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from mmbam.visualization.predictions import draw_detections, draw_segmentations


@pytest.fixture
def image(tmp_path):
    path = tmp_path / 'scene.png'
    cv2.imwrite(str(path), np.full((40, 40, 3), 128, np.uint8))
    return str(path)


def instances(*labels):
    masks = np.zeros((len(labels), 40, 40), bool)
    masks[:, 5:20, 5:20] = True
    boxes = np.tile([5.0, 5.0, 20.0, 20.0], (len(labels), 1))
    return dict(boxes=boxes, labels=np.array(labels, int), masks=masks)


def panels(path, columns):
    picture = cv2.imread(str(path)).astype(int)
    return np.array_split(picture, columns, axis=1)


def colourful(panel):
    return int((panel.max(axis=2) - panel.min(axis=2) > 30).sum())


def test_each_detector_has_a_column_with_what_it_found(image, tmp_path):
    truth = instances(1)
    draw_detections(
        {
            'blind': [dict(path=image, truth=truth, prediction=instances())],
            'seeing': [dict(path=image, truth=truth, prediction=instances(1))],
        },
        ['moon', 'brick'],
        tmp_path / 'out.png',
    )
    scene, known, blind, seeing = map(colourful, panels(tmp_path / 'out.png', 4))
    assert scene == blind == 0
    assert known > 500 and seeing > 500


def test_pixels_without_annotation_keep_their_colour(image, tmp_path):
    unknown = np.full((40, 40), 255)
    labels = np.ones((40, 40), int)
    draw_segmentations(
        {'network': [dict(path=image, truth=unknown, prediction=labels)]},
        ['moon', 'brick'],
        tmp_path / 'out.png',
    )
    picture = cv2.imread(str(tmp_path / 'out.png'))
    upper = picture[: int(0.85 * len(picture))]  # above the legend
    scene, known, answer = map(colourful, np.array_split(upper.astype(int), 3, axis=1))
    assert scene == known == 0 and answer > 500


def test_a_picture_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match='at least one image'):
        draw_detections({}, ['moon'], tmp_path / 'out.png')
