"""Normalization of any number of bands, and micro-batches of them."""

import copy

import pytest
import torch
from mmengine.registry import MODELS

from mmbam.models import BandsPreprocessor
from mmbam.utils.errors import InputError
from tests.helpers.tiny import RESNET, VIT, bam_config

MEAN, STD = [1000.0, 2000.0, 3000.0, 0.5, -20.0], [100.0, 200.0, 300.0, 0.1, 5.0]


def test_every_band_has_its_own_mean_and_deviation():
    normalize = BandsPreprocessor(MEAN, STD)
    images = torch.randn(2, 5, 8, 8)
    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (MEAN, STD))
    for training in (True, False):
        out = normalize(dict(inputs=images * std + mean, data_samples=None), training)
        torch.testing.assert_close(out['inputs'], images, atol=1e-3, rtol=0)
    views = [images * std + mean, (images * std + mean)[..., :4]]
    out = normalize(dict(inputs=views, data_samples=None), True)['inputs']
    assert [tuple(view.shape) for view in out] == [(2, 5, 8, 8), (2, 5, 8, 4)]
    assert not normalize.state_dict(), 'checkpoints hold no means'


def test_wrong_numbers_are_refused():
    with pytest.raises(InputError, match='one value for each band'):
        BandsPreprocessor(MEAN, STD[:4])
    with pytest.raises(InputError, match='std values above 0'):
        BandsPreprocessor(MEAN, [*STD[:4], 0.0])
    with pytest.raises(InputError, match='mean of 5 bands, but the images have 3'):
        BandsPreprocessor(MEAN, STD)(dict(inputs=torch.zeros(2, 3, 8, 8)))


@pytest.mark.parametrize('backbone', [VIT, RESNET])
def test_micro_batches_of_bands_give_the_gradient_of_the_whole_batch(backbone):
    config = bam_config(dict(backbone, in_channels=5))
    config['data_preprocessor'] = dict(
        type='mmbam.BandsPreprocessor', mean=MEAN, std=STD
    )
    if backbone is RESNET:
        config['backbone']['norm_eval'] = True
        config['backbone']['norm_cfg'] = dict(type='GN', num_groups=2)
    torch.manual_seed(0)
    whole = MODELS.build(config)
    whole.init_weights()
    parts = MODELS.build(dict(copy.deepcopy(config), micro_batch_size=2))
    parts.load_state_dict(whole.state_dict())
    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (MEAN, STD))
    views = [torch.randn(6, 5, s, s) * std + mean for s in (32, 32, 16, 16)]
    gradients = []
    for model in (whole, parts):
        model.train()
        data = model.data_preprocessor(dict(inputs=views, data_samples=None), True)
        model.loss(**data)['loss'].backward()
        gradients.append([p.grad for p in model.parameters() if p.requires_grad])
    for a, b in zip(*gradients):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
