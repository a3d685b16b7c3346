"""Videos end to end: masks on disk and their scores."""

import numpy as np
import pytest
import torch
from mmengine.config import Config
from PIL import Image

from mmbam.evaluation.frozen import build_frozen
from mmbam.evaluation.video import (
    FrameTokens,
    hard_labels,
    read_davis,
    read_labels,
    score_video,
    segment_videos,
    write_labels,
)
from mmbam.evaluation.video.evaluate import _one_hot
from tests.helpers.videos import RESNET, VIT, make_davis, make_network, make_odd
from tests.test_evaluation.test_video.oracle import dense_propagation


def tokens_of(config, weights, size=64):
    return FrameTokens(*build_frozen(Config.fromfile(config), weights), size)


def maps(folder):
    return {str(p.relative_to(folder)): read_labels(p) for p in folder.rglob('*.png')}


@pytest.mark.parametrize('backbone', [VIT, RESNET], ids=['vit', 'resnet'])
def test_masks_are_those_of_the_dense_computation(tmp_path, backbone):
    videos = read_davis(make_davis(tmp_path / 'DAVIS', lengths=(6, 5)))
    tokens = tokens_of(*make_network(tmp_path, backbone))
    results = segment_videos(tokens, videos, tmp_path, [2, 7], progress=False, radius=3)
    names = {f'{v.name}/{m.name}' for v in videos for m in v.masks}
    for t in (2, 7):
        found = maps(tmp_path / f'T{t}')
        assert set(found) == names
        objects = []
        for video in videos:
            features = [tokens(video.read_frame(i)) for i in range(len(video.frames))]
            first = video.first_labels()
            assert np.array_equal(found[f'{video.name}/00000.png'], first)
            soft = dense_propagation(features, _one_hot(first, features[0]), t, 5, 3)
            for mask, labels in zip(video.masks[1:], soft):
                expected = hard_labels(labels, (64, 64)).numpy()
                assert np.array_equal(found[f'{video.name}/{mask.name}'], expected)
            scores = score_video(video, tmp_path / f'T{t}' / video.name)
            assert len(scores) == first.max()
            objects += scores
        assert list(results[t]['objects'].values()) == objects
        mean = 100 * np.mean([o['J']['mean'] for o in objects])
        assert results[t]['J mean'] == pytest.approx(mean) and mean > 20


def test_an_annotation_scores_full_against_itself(tmp_path):
    for video in read_davis(make_davis(tmp_path)):
        for scores in score_video(video, video.masks[0].parent):
            assert scores['J'] == scores['F'] == dict(mean=1, recall=1, decay=0)


def test_odd_sizes_and_objects_that_go_and_come(tmp_path):
    (video,) = read_davis(make_odd(tmp_path / 'DAVIS', frame_size=(67, 101)))
    tokens = tokens_of(*make_network(tmp_path), size=60)
    results = segment_videos(tokens, [video], tmp_path, [7], progress=False)
    found = maps(tmp_path / 'T7' / 'odd')
    assert {labels.shape for labels in found.values()} == {(67, 101)}
    # The second object is not in the first frame: never found, never scored.
    assert {int(labels.max()) for labels in found.values()} <= {0, 1}
    assert list(results[7]['objects']) == ['odd_1']
    # Where the first is gone, only an empty mask is right.
    for name in ('00001.png', '00002.png'):
        write_labels(tmp_path / 'T7' / 'odd' / name, read_labels(video.masks[1]) % 2)
    (scores,) = score_video(video, tmp_path / 'T7' / 'odd')
    assert scores['J']['mean'] == scores['F']['mean'] == 0.5


def test_an_upright_video_is_not_turned(tmp_path):
    (video,) = read_davis(make_odd(tmp_path / 'DAVIS', frame_size=(130, 95)))
    tokens = tokens_of(*make_network(tmp_path), size=128)
    segment_videos(tokens, [video], tmp_path, [7], progress=False)
    found = read_labels(tmp_path / 'T7/odd/00001.png')
    truth = read_labels(video.masks[1])
    assert found.shape == truth.shape == (130, 95)
    assert ((found == 1) & (truth == 1)).sum() > 0.5 * (truth == 1).sum()


def test_one_frame_without_scores_is_its_annotation(tmp_path):
    videos = read_davis(make_odd(tmp_path / 'DAVIS', frames=1), scored=False)
    tokens = tokens_of(*make_network(tmp_path))
    results = segment_videos(tokens, videos, tmp_path, scored=False, progress=False)
    assert results == {}
    for t in (7, 14, 21, 28):
        assert np.array_equal(
            read_labels(tmp_path / f'T{t}/odd/00000.png'), videos[0].first_labels()
        )


def test_the_network_is_left_as_it_was(tmp_path):
    videos = read_davis(make_davis(tmp_path / 'DAVIS', lengths=(3,)))
    tokens = tokens_of(*make_network(tmp_path))
    tokens.backbone.train()
    segment_videos(tokens, videos, tmp_path, [7], progress=False)
    assert tokens.backbone.training and tokens.backbone.out_type == 'cls_token'


def test_wrong_arguments_are_named_before_the_work_begins(tmp_path):
    videos = read_davis(make_davis(tmp_path / 'DAVIS', lengths=(3,)))
    tokens = tokens_of(*make_network(tmp_path))
    with pytest.raises(ValueError, match='last frames must be different'):
        segment_videos(tokens, videos, tmp_path / 'out', [0])
    assert not (tmp_path / 'out').exists()


def test_labels_of_tokens_are_those_of_the_pixels_in_their_middle():
    labels = np.array(Image.fromarray(np.eye(4, dtype=np.uint8)).resize((32, 32), 0))
    one_hot = _one_hot(labels, torch.zeros(5, 4, 4))
    assert torch.equal(one_hot[1], torch.eye(4))
    assert torch.equal(one_hot.sum(0), torch.ones(4, 4))
