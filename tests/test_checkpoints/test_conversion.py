"""Conversion: there and back, equal features, and readable where it is meant for."""

import pytest
import timm
import torch
from mmengine.runner import load_checkpoint
from torch import nn

from mmbam.checkpoints import convert_checkpoint, read_weights
from tests.helpers.networks import (
    mm_caformer,
    mm_resnet,
    mm_vit,
    timm_caformer,
    timm_vit,
)

IMAGE = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def save_bam(path, student, teacher=None):
    """A checkpoint as BAM's are."""
    model = nn.Module()
    model.backbone, model.neck = student, nn.Linear(2, 2)
    if teacher is not None:
        model.teacher = nn.Module()
        model.teacher.backbone, model.teacher.neck = teacher, nn.Linear(2, 2)
    torch.save(dict(state_dict=model.state_dict(), meta=dict(epoch=1)), path)


@torch.no_grad()
def test_ours_to_timm_loads_with_timms_own_function(tmp_path):
    student, teacher = mm_vit('MoCoV3ViT'), mm_vit()
    with torch.no_grad():
        student.cls_token += 1
    save_bam(tmp_path / 'in.pth', student, teacher)
    theirs = timm_vit(num_classes=0)
    for source, expected in (('auto', teacher), ('student', student)):
        convert_checkpoint(tmp_path / 'in.pth', tmp_path / 'out.pth', 'timm', source)
        timm.models.load_checkpoint(theirs, str(tmp_path / 'out.pth'), strict=True)
        torch.testing.assert_close(
            theirs(IMAGE), expected(IMAGE)[-1], atol=1e-5, rtol=0
        )


@torch.no_grad()
def test_timm_to_ours_loads_with_mmengines_own_function(tmp_path):
    theirs = timm_vit()
    torch.save(theirs.state_dict(), tmp_path / 'in.pth')
    convert_checkpoint(tmp_path / 'in.pth', tmp_path / 'out.pth', 'mmpretrain')
    model = nn.Module()
    model.backbone = mm_vit()
    load_checkpoint(model, str(tmp_path / 'out.pth'), strict=True)
    torch.testing.assert_close(
        model.backbone(IMAGE)[-1], theirs.forward_features(IMAGE)[:, 0]
    )


def test_what_is_written_is_contiguous(tmp_path):
    save_bam(tmp_path / 'in.pth', mm_resnet().to(memory_format=torch.channels_last))
    weights = convert_checkpoint(tmp_path / 'in.pth', tmp_path / 'out.pth', 'timm')
    assert all(weight.is_contiguous() for weight in weights.values())


@pytest.mark.parametrize('network', [mm_vit, mm_resnet, mm_caformer])
@pytest.mark.parametrize('to', ['timm', 'release'])
def test_there_and_back_gives_the_same_weights(tmp_path, network, to):
    network = network()
    save_bam(tmp_path / 'a.pth', network)
    convert_checkpoint(tmp_path / 'a.pth', tmp_path / 'b.pth', to)
    convert_checkpoint(tmp_path / 'b.pth', tmp_path / 'c.pth', 'mmpretrain')
    weights = read_weights(tmp_path / 'c.pth')
    expected = network.state_dict()
    assert weights.keys() == {f'backbone.{name}' for name in expected}
    for name, value in expected.items():
        assert torch.equal(weights[f'backbone.{name}'], value)


def test_the_release_says_whose_weights_they_are(tmp_path):
    save_bam(tmp_path / 'a.pth', mm_vit(), mm_vit())
    weights = convert_checkpoint(tmp_path / 'a.pth', tmp_path / 'b.pth', 'release')
    assert 'teacher.backbone.blocks.0.mlp.fc1.weight' in weights
    assert all(name.startswith('teacher.backbone.') for name in weights)


def test_heads_are_left_out_but_not_the_final_norm_in_one(tmp_path):
    torch.save(timm_caformer().state_dict(), tmp_path / 'a.pth')
    weights = convert_checkpoint(tmp_path / 'a.pth', tmp_path / 'b.pth', 'mmpretrain')
    heads = {name for name in weights if '.head.' in name}
    assert heads == {f'backbone.timm_model.head.norm.{n}' for n in ('weight', 'bias')}


def test_a_prefix_names_the_network_to_convert(tmp_path):
    network = timm_vit(num_classes=0)
    torch.save(
        {f'one.net.{name}': value for name, value in network.state_dict().items()},
        tmp_path / 'a.pth',
    )
    args = (tmp_path / 'a.pth', tmp_path / 'b.pth', 'timm')
    weights = convert_checkpoint(*args, prefix='one.net')
    assert weights.keys() == network.state_dict().keys()
    with pytest.raises(ValueError, match="begins with 'two.': they begin with one"):
        convert_checkpoint(*args, prefix='two')


def test_bad_requests_are_named(tmp_path):
    torch.save({'fc.weight': torch.zeros(1)}, tmp_path / 'a.pth')
    with pytest.raises(ValueError, match="'mmpretrain', 'timm', 'release'.*'onnx'"):
        convert_checkpoint(tmp_path / 'a.pth', tmp_path / 'b.pth', 'onnx')
    with pytest.raises(ValueError, match='no backbone'):
        convert_checkpoint(tmp_path / 'a.pth', tmp_path / 'b.pth', 'timm')
    assert not (tmp_path / 'b.pth').exists()
