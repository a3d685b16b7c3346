"""Weights of RGB in networks that see another number of bands."""

import pytest
import torch

from mmbam.checkpoints import load_backbone
from mmbam.models import FrozenTeacher
from mmbam.utils.errors import InputError
from tests.helpers.networks import mm, mm_vit, timm_vit

BUILD = {
    'resnet': lambda **kwargs: mm(
        type='mmpretrain.ResNet', depth=18, stem_channels=8, base_channels=8, **kwargs
    ),
    'vit': mm_vit,
    'moco': lambda **kwargs: mm_vit('MoCoV3ViT', stop_grad_conv1=True, **kwargs),
    'timm': lambda in_channels: timm_vit(in_chans=in_channels, num_classes=0),
    'caformer': lambda **kwargs: mm(type='mmbam.CAFormer', arch='s18', **kwargs),
}


def build(kind, bands):
    return BUILD[kind](in_channels=bands)


def features(network, images):
    out = network(images)
    while not isinstance(out, torch.Tensor):
        out = out[-1]
    return out


@pytest.fixture(params=BUILD)
def case(request, tmp_path):
    rgb = build(request.param, 3)
    path = tmp_path / 'rgb.pth'
    torch.save(dict(state_dict=rgb.state_dict()), path)
    return request.param, rgb, path


@torch.no_grad()
def test_equal_bands_give_the_features_that_they_gave_before(case):
    kind, rgb, path = case
    gray = torch.randn(2, 1, 32, 32)
    expected = features(rgb, gray.expand(-1, 3, -1, -1))
    for inflate in ('mean', 'repeat'):
        for bands in (1, 5, 6):
            if inflate == 'repeat' and bands % 3:
                continue  # some bands of RGB then count more than others
            network = build(kind, bands)
            load_backbone(network, path, inflate=inflate)
            made = features(network, gray.expand(-1, bands, -1, -1))
            torch.testing.assert_close(made, expected, atol=1e-4, rtol=1e-4)


def test_every_weight_is_taken_over_and_others_are_untouched(case):
    kind, rgb, path = case
    network = build(kind, 5)
    load_backbone(network, path, inflate='repeat')
    changed = []
    for name, value in network.state_dict().items():
        theirs = rgb.state_dict()[name]
        if value.shape != theirs.shape:
            changed.append(name)
            repeated = theirs[:, [0, 1, 2, 0, 1]] * 3 / 5
            torch.testing.assert_close(value, repeated)
        else:
            assert torch.equal(value, theirs)
    assert len(changed) == 1


def test_other_bands_are_refused_unless_asked_for(case):
    kind, _, path = case
    network = build(kind, 5)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(InputError, match="sees 3 bands.* this one sees 5.*'repeat'"):
        load_backbone(network, path)
    assert all(torch.equal(v, before[k]) for k, v in network.state_dict().items())
    with pytest.raises(InputError, match="inflate must be one of.*'mean', 'repeat'"):
        load_backbone(network, path, inflate='sum')


def test_a_frozen_teacher_sees_all_bands(tmp_path):
    path = tmp_path / 'rgb.pth'
    torch.save(dict(state_dict=build('resnet', 3).state_dict()), path)
    config = dict(
        type='mmpretrain.ResNet',
        depth=18,
        stem_channels=8,
        base_channels=8,
        in_channels=5,
    )
    with pytest.raises(InputError, match='sees 3 bands'):
        FrozenTeacher(config, str(path))
    teacher = FrozenTeacher(config, str(path), inflate='mean')
    assert teacher([torch.randn(2, 5, 32, 32)]).shape == (2, 64)
