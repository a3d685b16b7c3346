"""The picture of crops shows what it says."""

import cv2
import numpy as np
import pytest
import torch

from mmbam.visualization import crops
from mmbam.visualization.crops import draw_crops, of_whole_images


@pytest.fixture
def images():
    """Of different sizes, with the place of a pixel in its colours."""
    found = []
    for height, width in ((40, 60), (50, 30), (32, 32)):
        rows, columns = np.mgrid[0:height, 0:width]
        found.append(
            np.stack(
                (rows * 255 // height, columns * 255 // width, 0 * rows), axis=2
            ).astype(np.uint8)
        )
    return found


def test_a_picture_is_written_and_training_draws_stay(tmp_path, images):
    np.random.seed(0)
    expected = np.random.rand()
    np.random.seed(0)
    boxes = torch.tensor([[0.1, 0.2, 0.5, 0.6]] * 3)
    draw_crops(images, torch.rand(3, 7, 7), boxes, tmp_path / 'crops.png')
    assert np.random.rand() == expected
    picture = cv2.imread(str(tmp_path / 'crops.png'))
    assert picture.shape[1] > 1000
    lime = (picture == (0, 255, 0)).all(axis=2)
    assert lime.sum() > 100  # the boxes' sides


def test_both_kinds_of_crops_differ_in_place_alone(images, monkeypatch):
    windows = []
    original = crops.sample_window

    def sample_window(*args):
        windows.append(original(*args))
        return windows[-1]

    monkeypatch.setattr(crops, 'sample_window', sample_window)
    monkeypatch.setattr(crops, 'AREAS', [(0.05, 0.25)] * 8)
    box = (0.0, 0.0, 0.2, 0.2)
    for place in (None, box):
        shown = crops._cut(images[0], place, seed=1)
        assert len(shown) == 8
    random, contrastive = np.array(windows[:8]), np.array(windows[8:])
    np.testing.assert_array_equal(random[:, 2:], contrastive[:, 2:])
    centres = contrastive[:, :2] + contrastive[:, 2:] / 2
    assert (contrastive[:, :2] <= np.array([0.2 * 40, 0.2 * 60])).all()
    assert len(np.unique(random, axis=0)) == 8
    assert centres.mean() < (random[:, :2] + random[:, 2:] / 2).mean()


def test_boxes_of_the_whole_image_are_called_that(tmp_path, images, monkeypatch):
    written = []
    original = crops.Axes.text

    def text(self, x, y, words, **kwargs):
        written.append(words)
        return original(self, x, y, words, **kwargs)

    monkeypatch.setattr(crops.Axes, 'text', text)
    half, whole = [0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 1.0, 0.999]
    boxes = torch.tensor([half, whole, half])
    draw_crops(images, torch.rand(3, 7, 7), boxes, tmp_path / 'crops.png')
    assert written.count('box: whole image') == 1
    assert of_whole_images(boxes).startswith('1 of 3 boxes is the whole image')
    assert of_whole_images(boxes[[1, 1]]).startswith('2 of 2 boxes are')
    nothing = torch.full((1, 4), float('nan'))
    assert of_whole_images(nothing) == 'None of the 1 boxes is the whole image.'
