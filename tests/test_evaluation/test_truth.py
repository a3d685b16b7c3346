"""The k-NN on labels that the judge is measured by."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from torch import nn

from mmbam.evaluation import two_views as truth
from mmbam.evaluation.frozen import plain_pipeline


@pytest.fixture
def labeled(tmp_path):
    """Test images whose nearest neighbor is of another class than the next 19."""
    rng = np.random.default_rng(0)
    image = rng.integers(60, 200, (8, 8, 3))

    def write(name, value):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), value.clip(0, 255).astype(np.uint8))

    write('train/a/twin.png', image)
    for i in range(19):
        write(f'train/b/{i}.png', image + rng.integers(-20, 20, image.shape))
    write('val/b/0.png', image)
    write('val/a/0.png', 255 - image)
    return str(tmp_path)


def test_twenty_neighbors_vote(labeled):
    found = truth.Truth(labeled, plain_pipeline(8), batch_size=3, num_workers=0)
    # With one neighbor, the first would be of class a.
    assert found.accuracy(nn.Flatten(), None) == 50
    assert found.accuracy(nn.Flatten(), None) == 50  # from memory


def test_of_many_images_a_part_is_drawn(labeled, monkeypatch):
    monkeypatch.setattr(truth, 'MOST_TRAIN', 5)
    found = truth.Truth(labeled, plain_pipeline(8), batch_size=3, num_workers=0)
    assert (len(found.train.dataset), len(found.test.dataset)) == (5, 2)
