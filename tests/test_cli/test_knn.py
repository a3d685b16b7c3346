"""`mmbam knn`: the figure of a slow computation, from one rank or two."""

import pytest

from tests.helpers.folders import make_config, make_folders, slow_features
from tests.helpers.run import run_verb, run_verb_on_devices
from tests.test_evaluation.test_knn import slow_accuracy


@pytest.mark.parametrize('ranks', [1, pytest.param(2, marks=pytest.mark.slow)])
def test_prints_the_accuracy_of_a_slow_computation(tmp_path, ranks):
    make_folders(tmp_path, test=7)  # 21 images: two ranks share them unevenly
    config, weights, backbone = make_config(tmp_path)
    expected = slow_accuracy(
        *slow_features(backbone, tmp_path / 'train'),
        *slow_features(backbone, tmp_path / 'test'),
        k=5,
        temperature=0.07,
    )
    assert 30 < expected['top1'] < 100
    command = 'knn', config, weights, '--k', 5, '--num-workers', 0
    if ranks == 1:
        printed, error = run_verb(*command)
        assert error is None
    else:
        printed = run_verb_on_devices(ranks, *command)
    figure = f'5-NN: top-1 {expected["top1"]:.2f}, top-5 {expected["top5"]:.2f}'
    assert printed.count(figure) == 1


def test_what_is_wrong_is_said_in_one_sentence(tmp_path):
    make_folders(tmp_path, train=2, test=1)
    config, weights, _ = make_config(tmp_path)
    _, error = run_verb('knn', config, weights, '--num-workers=0')
    assert error.startswith('mmbam knn: k=20 neighbors need')
    _, error = run_verb('knn', config, tmp_path / 'gone.pth')
    assert error.startswith('mmbam knn: There is no checkpoint file')
