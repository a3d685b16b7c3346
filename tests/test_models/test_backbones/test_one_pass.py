"""One pass gives what two give."""

import pytest
import timm
import torch
from mmpretrain.registry import MODELS

from mmbam.models import embedding, embedding_and_tokens
from mmbam.models.backbones.anatomy import patch_tokens
from tests.helpers.networks import mm_resnet, mm_vit, randomise

IMAGES = torch.randn(2, 3, 32, 64, generator=torch.Generator().manual_seed(0))
NAME = 'vit_small_patch16_224'
SMALL = dict(depth=2, embed_dim=24, num_heads=4, patch_size=8, img_size=32)
VIT = dict(model_name=NAME, dynamic_img_size=True, **SMALL)


def of_timm(kind, **kwargs):
    return randomise(MODELS.build(dict(type=kind, **kwargs)))


BUILD = {
    'vit': (mm_vit, 1),
    'vit, mean': (lambda: mm_vit(out_type='avg_featmap'), 1),
    'moco': (lambda: mm_vit('MoCoV3ViT'), 1),
    'resnet': (lambda: mm_resnet(18), 1),
    'timm': (lambda: of_timm('mmpretrain.TIMMBackbone', **VIT), 1),
    'embedding': (lambda: of_timm('mmbam.TIMMEmbedding', **VIT), 1),
    'cnn': (lambda: of_timm('mmbam.TIMMEmbedding', model_name='resnet18'), 1),
    'norm of the mean': (
        lambda: of_timm('mmpretrain.TIMMBackbone', model_name='convnext_atto'),
        1,
    ),
    'pyramid': (
        lambda: of_timm(
            'mmpretrain.TIMMBackbone', model_name='resnet18', features_only=True
        ),
        2,
    ),
}


@torch.no_grad()
@pytest.mark.parametrize('kind', BUILD)
def test_one_pass_gives_the_embedding_and_the_map(kind):
    build, passes = BUILD[kind]
    network = build()
    expected = embedding(network, IMAGES), patch_tokens(network, IMAGES)
    calls = []
    first = next(m for m in network.modules() if isinstance(m, torch.nn.Conv2d))
    first.register_forward_hook(lambda *_: calls.append(1))
    found = embedding_and_tokens(network, IMAGES)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other)
    assert len(calls) == passes


@torch.no_grad()
def test_a_network_of_timm_gives_timms_own_embedding():
    ours = of_timm('mmbam.TIMMEmbedding', **VIT)
    theirs = timm.create_model(NAME, num_classes=0, dynamic_img_size=True, **SMALL)
    theirs.load_state_dict(ours.timm_model.state_dict())
    assert torch.equal(ours(IMAGES)[0], theirs.eval()(IMAGES))
