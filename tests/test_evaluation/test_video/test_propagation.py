"""Label propagation: equal to the dense computation, without its matrix."""

import pytest
import torch
import torch.nn.functional as F

from mmbam.evaluation.video import (
    hard_labels,
    local_neighbours,
    neighbours,
    propagate_labels,
    propagation,
)
from tests.test_evaluation.test_video.oracle import dense_propagation, neighbourhood


def made(h=9, w=13, frames=12, dim=16, classes=3):
    """A drifting scene with noise: labels stay alive, neighbours are not trivial."""
    generator = torch.Generator().manual_seed(0)
    world = torch.randn(dim, h + frames, w + frames, generator=generator)
    ids = torch.randint(classes, (h // 3 + 1, w // 3 + 1), generator=generator)
    ids = ids.repeat_interleave(3, 0).repeat_interleave(3, 1)[:h, :w]
    noise = torch.randn(frames, dim, h, w, generator=generator)
    features = [world[:, t : t + h, t : t + w] + noise[t] for t in range(frames)]
    return features, F.one_hot(ids, classes).permute(2, 0, 1).float()


@pytest.mark.parametrize('last', [1, 3, 7, 28])
@pytest.mark.parametrize('k, radius', [(5, 2), (5, 12), (1, 0), (7, 3)])
@pytest.mark.parametrize('tile', [(8, 11), (2, 3), (9, 1)])
def test_soft_labels_equal_the_dense_computation(monkeypatch, last, k, radius, tile):
    monkeypatch.setattr(neighbours, '_TILE', tile)
    features, labels = made()
    expected = dense_propagation(features, labels, last, k, radius)
    got = list(propagate_labels(features, labels, [last], k, radius))
    assert len(got) == len(features) - 1
    for soft, reference in zip(got, expected):
        torch.testing.assert_close(soft[last], reference, atol=2e-5, rtol=0)
        torch.testing.assert_close(soft[last].sum(0), torch.ones(9, 13))


def test_several_t_in_one_pass_are_what_each_gives_alone():
    features, labels = made()
    together = list(propagate_labels(iter(features), labels, [7, 2, 5]))
    for t in (7, 2, 5):
        alone = propagate_labels(features, labels, [t])
        for soft, single in zip(together, alone):
            torch.testing.assert_close(soft[t], single[t])
    assert not torch.allclose(together[-1][7], together[-1][2])


def test_neighbours_stay_within_the_window():
    features, _ = made()
    tokens = F.normalize(torch.stack(features), dim=1).permute(0, 2, 3, 1)
    similarities, indices = local_neighbours(tokens[0], tokens[1:], k=4, radius=2)
    near = neighbourhood(9, 13, 2).bool()
    assert similarities.shape == indices.shape == (11, 117, 4)
    assert near[torch.arange(117)[None, :, None], indices].all()
    every = tokens[0].flatten(0, 1) @ tokens[1:].flatten(1, 2).transpose(1, 2)
    best = every.masked_fill(~near, -torch.inf).topk(4)[0]
    torch.testing.assert_close(similarities, best)
    torch.testing.assert_close(every.gather(2, indices), best)


def test_windows_smaller_than_k_use_what_they_have():
    features, labels = made(h=1, w=2, frames=3)
    for soft in propagate_labels(features, labels, [7]):
        torch.testing.assert_close(soft[7].sum(0), torch.ones(1, 2))
    tokens = F.normalize(torch.stack(features), dim=1).permute(0, 2, 3, 1)
    similarities, _ = local_neighbours(tokens[0], tokens[1:])
    assert (similarities == -torch.inf).sum(-1).tolist() == [[3, 3]] * 2


def test_no_tensor_is_as_large_as_all_pairs_of_tokens(monkeypatch):
    sizes = []

    def spy(name):
        original = getattr(torch, name)

        def call(*args, **kwargs):
            result = original(*args, **kwargs)
            sizes.append(result.numel() / len(result))  # of one context frame
            return result

        return call

    monkeypatch.setattr(torch, 'baddbmm', spy('baddbmm'))
    tokens = F.normalize(torch.randn(3, 30, 54, 8), dim=-1)
    local_neighbours(tokens[0], tokens[1:])
    assert sizes and max(sizes) < (30 * 54) ** 2 / 20


def test_only_the_first_and_the_last_frames_are_searched(monkeypatch):
    searched = []

    def spy(query, context, *args):
        searched.append(len(context))
        return local_neighbours(query, context, *args)

    monkeypatch.setattr(propagation, 'local_neighbours', spy)
    list(propagate_labels(*made(frames=9), [2, 4]))
    assert searched == [1, 2, 3, 4, 5, 5, 5, 5]  # once for both T


def test_each_class_is_stretched_to_the_whole_range_before_the_largest_wins():
    soft = torch.zeros(3, 2, 2)
    soft[1, 0, 0] = 0.2  # small, but nowhere larger
    soft[0] = 1 - soft.sum(0)
    assert hard_labels(soft, (2, 2)).tolist() == [[1, 0], [0, 0]]
    big = hard_labels(soft, (8, 10))
    assert big.dtype == torch.uint8 and big.shape == (8, 10)
    assert big[0, 0] == 1 and big[7, 9] == 0 and set(big.unique().tolist()) == {0, 1}


def test_ties_up_to_rounding_go_to_the_smaller_label():
    soft = torch.tensor([[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]])[:, None]
    for error in (-1e-7, 0, 1e-7):
        soft[0, 0, 0] = 0.5 + error
        assert hard_labels(soft, (1, 3)).tolist() == [[0, 0, 1]]


def test_a_class_that_is_everywhere_stays():
    soft = torch.zeros(3, 2, 2)
    soft[1] = 1
    assert (hard_labels(soft, (4, 4)) == 1).all()


@pytest.mark.parametrize(
    'wrong, sentence',
    [
        (dict(last=[]), 'last frames must be different'),
        (dict(last=[0, 7]), 'last frames must be different'),
        (dict(last=[7, 7]), 'last frames must be different'),
        (dict(k=0), 'k=0'),
        (dict(radius=-1), 'radius=-1'),
        (dict(temperature=0), 'temperature=0'),
    ],
)
def test_wrong_arguments_are_named_at_once(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        propagate_labels(*made(), **wrong)


def test_frames_must_have_the_grid_of_the_labels():
    features, labels = made()
    features[2] = features[2][:, 1:]
    with pytest.raises(ValueError, match='9 x 13, but frame 2 has 8 x 13'):
        list(propagate_labels(features, labels))
