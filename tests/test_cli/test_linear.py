"""`mmbam linear`: the figure of the function, on one rank and on two."""

import pytest
import torch

from mmbam.evaluation import linear_probe
from tests.helpers.distributed import run_verb_on_ranks
from tests.helpers.folders import make_config, make_folders, slow_features
from tests.helpers.run import run_verb


@pytest.mark.parametrize('ranks', [1, 2])
def test_prints_the_accuracy_of_a_probe_on_frozen_features(tmp_path, ranks):
    make_folders(tmp_path, test=7)
    config, weights, backbone = make_config(tmp_path)
    sets = (slow_features(backbone, tmp_path / name) for name in ('train', 'test'))
    tensors = [torch.from_numpy(array) for arrays in sets for array in arrays]
    expected = linear_probe(*tensors, epochs=20, base_lr=0.1)
    assert 30 < expected['top1'] < 100
    command = 'linear', config, weights, '--epochs', 20, '--base-lr', 0.1
    command = *command, '--num-workers', 0
    if ranks == 1:
        printed, error = run_verb(*command)
        assert error is None
    else:
        printed = run_verb_on_ranks(ranks, tmp_path, *command)
    figure = f'top-1 {expected["top1"]:.2f}, top-5 {expected["top5"]:.2f}'
    assert printed.count(f'Linear probe: {figure}') == 1
