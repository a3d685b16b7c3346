"""J and F on masks whose scores can be counted by hand."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from mmbam.evaluation.video import (
    boundary_f,
    jaccard,
    mean_scores,
    object_scores,
    statistics,
)
from mmbam.evaluation.video.scores import boundary


def square(top, left, side, shape=(50, 60)):
    mask = np.zeros(shape, bool)
    mask[top : top + side, left : left + side] = True
    return mask


EMPTY, FULL = np.zeros((50, 60), bool), np.ones((50, 60), bool)


@pytest.mark.parametrize(
    'result, truth, value',
    [
        (square(5, 5, 10), square(5, 5, 10), 1.0),
        (square(5, 5, 10), square(5, 10, 10), 50 / 150),
        (square(5, 5, 4), square(5, 5, 8), 16 / 64),
        (square(5, 5, 4), square(30, 30, 4), 0.0),
        (EMPTY, EMPTY, 1.0),
        (EMPTY, square(5, 5, 4), 0.0),
        (square(5, 5, 4), EMPTY, 0.0),
        (FULL, FULL, 1.0),
    ],
)
def test_jaccard_is_intersection_over_union(result, truth, value):
    assert jaccard(result, truth) == pytest.approx(value)


def test_boundary_pixels_differ_from_a_neighbour_to_the_right_or_below():
    mask = np.zeros((5, 6), bool)
    mask[2:4, 2:4] = True
    assert boundary(mask).tolist() == [
        [0, 0, 0, 0, 0, 0],
        [0, 1, 1, 1, 0, 0],
        [0, 1, 0, 1, 0, 0],
        [0, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    corner = np.zeros((3, 3), bool)
    corner[1:, 1:] = True  # to the end of the image, where no neighbour differs
    assert boundary(corner).tolist() == [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert not boundary(np.ones((3, 3), bool)).any()


@pytest.mark.parametrize(
    'result, truth, value',
    [
        (square(5, 5, 10), square(5, 5, 10), 1.0),
        # ceil(0.008 * sqrt(50 ** 2 + 60 ** 2)) = 1 pixel is forgiven, 2 are not.
        (square(5, 5, 10), square(5, 6, 10), 1.0),
        # Of the ring's 40 pixels, 10 of the 11 above and of the 11 below, and the ends
        # of one side, which are next to the other ring's rows.
        (square(5, 5, 10), square(5, 7, 10), 22 / 40),
        (square(5, 5, 4), square(30, 30, 4), 0.0),
        (EMPTY, EMPTY, 1.0),
        (FULL, EMPTY, 1.0),  # neither has a boundary
        (EMPTY, square(5, 5, 4), 0.0),
        (square(5, 5, 4), EMPTY, 0.0),
    ],
)
def test_boundary_f_of_squares(result, truth, value):
    assert boundary_f(result, truth) == pytest.approx(value)


def test_a_boundary_without_precision_alone_lowers_f():
    truth = square(10, 10, 10)
    result = truth | square(35, 40, 10)  # a second square: every edge of truth is found
    precision = boundary(truth).sum() / boundary(result).sum()
    assert precision == 0.5
    assert boundary_f(result, truth) == pytest.approx(2 * 0.5 / 1.5)
    assert boundary_f(truth, result) == pytest.approx(2 * 0.5 / 1.5)


def test_boundary_f_equals_distances_between_all_boundary_pixels():
    rng = np.random.default_rng(0)
    for shape in ((240, 400), (91, 33)):
        noise = rng.normal(size=(2, shape[0] // 16, shape[1] // 16))
        big = noise.repeat(19, axis=1).repeat(19, axis=2)[:, : shape[0], : shape[1]]
        result, truth = big > 0.8
        shape = truth.shape
        places = [np.argwhere(boundary(mask)) for mask in (result, truth)]
        close = cdist(*places) <= np.ceil(0.008 * np.hypot(*shape))
        precision, recall = close.any(1).mean(), close.any(0).mean()
        assert 0.1 < precision < 0.95
        expected = 2 * precision * recall / (precision + recall)
        assert boundary_f(result, truth) == pytest.approx(expected)


@pytest.mark.parametrize(
    'values, mean, recall, decay',
    [
        ([0.7], 0.7, 1, 0),
        ([0.5, 0.51], 0.505, 0.5, -0.01),  # exactly 0.5 is not above it
        # Quarters of 9 frames: 0-2, 2-4, 4-6, 6-8.
        ([0.9, 0.8, 0.7, 0, 0, 0, 0.3, 0.2, 0.1], 1 / 3, 1 / 3, 0.6),
        # Of 8: their ends 0, 1.75, 3.5, 5.25, 7 are rounded to 0, 2, 4, 5, 7.
        ([0.9, 0.8, 0.7, 0, 0, 0.3, 0.2, 0.1], 0.375, 0.375, 0.6),
        # Of 3: 0, 0.5, 1, 1.5, 2 become 0, 1, 1, 2, 2.
        ([1, 0, 0.25], 1.25 / 3, 1 / 3, 0.25),
    ],
)
def test_mean_recall_and_decay(values, mean, recall, decay):
    expected = pytest.approx(dict(mean=mean, recall=recall, decay=decay))
    assert statistics(np.array(values)) == expected


def test_long_videos_decay_too():
    values = np.concatenate([np.ones(400), np.zeros(400)])
    assert statistics(values)['decay'] == 1


def test_objects_are_scored_alone_and_void_pixels_not_at_all():
    truth = np.zeros((2, 50, 60), np.uint8)
    truth[:, 5:15, 5:15] = 1
    truth[0, 30:40, 30:40] = 2  # disappears after the first of the frames
    truth[:, 30:35, 5:10] = 3  # was not in the first annotation: not scored
    result = truth.copy()
    result[1, 5:15, 10:15] = 0
    first, second = object_scores(result, truth, 2)
    assert first['J'] == dict(mean=0.75, recall=0.5, decay=0.5)
    assert second['J'] == second['F'] == dict(mean=1, recall=1, decay=0)

    truth[1, 5:15, 10:15] = 255  # what was wrong does not count any more
    result[1, 5:15, 12:15] = 2
    first, second = object_scores(result, truth, 2)
    assert first['J']['mean'] == first['F']['mean'] == second['J']['mean'] == 1


def test_an_object_that_is_seen_where_it_is_not_scores_zero():
    truth, result = np.zeros((2, 1, 50, 60), np.uint8)
    result[0, 3, 3] = 1
    (scores,) = object_scores(result, truth, 1)
    assert scores['J']['mean'] == scores['F']['mean'] == 0


def test_means_are_over_objects_in_per_cent():
    def one(j, f):
        return dict(
            J=dict(mean=j, recall=1.0, decay=0.1), F=dict(mean=f, recall=0.5, decay=0.0)
        )

    scores = mean_scores([one(0.2, 0.4), one(0.4, 0.4), one(0.6, 0.7)])
    assert scores == pytest.approx({
        'J&F': 45, 'J mean': 40, 'J recall': 100, 'J decay': 10,
        'F mean': 50, 'F recall': 50, 'F decay': 0,
    })  # fmt: skip


def test_sizes_must_agree():
    with pytest.raises(ValueError, match='must have one size'):
        object_scores([np.zeros((3, 4))], [np.zeros((4, 3))], 1)
    with pytest.raises(ValueError, match='at least one frame'):
        statistics(np.array([]))
