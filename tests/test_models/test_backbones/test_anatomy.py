"""Answers about a backbone are those of the network itself."""

import pytest
import torch
from mmpretrain.models.backbones import ResNet, TIMMBackbone, VisionTransformer
from mmpretrain.models.selfsup import MoCoV3ViT
from torch import nn

from mmbam.models import embed_views
from mmbam.models.backbones.anatomy import (
    NoAttentionError,
    attention_maps,
    blocks,
    embedding,
    embedding_width,
    has_cls_token,
    heat_map,
    patch_size,
    patch_tokens,
    pool_features,
)
from mmbam.utils.errors import InputError

ARCH = dict(embed_dims=24, num_layers=2, num_heads=3, feedforward_channels=48)


def tiny_vit(cls=VisionTransformer, **kwargs):
    torch.manual_seed(0)
    vit = cls(arch=ARCH, img_size=32, patch_size=8, **kwargs)
    # The default initialisation is so small that every attention is nearly uniform.
    for parameter in vit.layers.parameters():
        nn.init.normal_(parameter, std=0.3)
    vit.eval()
    return vit


def explicit_attention(block, x):
    """The whole attention matrix of a block, as the paper on ViT writes it."""
    n, tokens, _ = x.shape
    q, k, _ = block.attn.qkv(block.norm1(x)).chunk(3, dim=-1)
    heads = block.attn.num_heads
    q, k = (t.reshape(n, tokens, heads, -1).permute(0, 2, 1, 3) for t in (q, k))
    return (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(dim=-1)


def input_of(module, run):
    seen = []
    handle = module.register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    run()
    handle.remove()
    return seen[0]


@pytest.mark.parametrize('cls', [VisionTransformer, MoCoV3ViT])
@pytest.mark.parametrize('out_type', ['cls_token', 'featmap', 'avg_featmap', 'raw'])
def test_vit_heat_is_the_cls_row_of_the_attention_matrix(cls, out_type):
    vit = tiny_vit(cls, out_type=out_type)
    images = torch.randn(2, 3, 32, 48)
    x = input_of(vit.layers[-1], lambda: vit(images))
    expected = explicit_attention(vit.layers[-1], x)[:, :, 0, 1:]
    heads = attention_maps(vit, images)
    assert heads.shape == (2, 3, 4, 6)
    torch.testing.assert_close(heads.flatten(2), expected)
    torch.testing.assert_close(heat_map(vit, images).flatten(1), expected.sum(1))


@pytest.mark.parametrize('qk_norm', [False, True])
def test_timm_vit_heat_is_the_cls_row_of_the_attention_matrix(qk_norm):
    torch.manual_seed(0)
    backbone = TIMMBackbone(
        'vit_tiny_patch16_224',
        img_size=32,
        patch_size=8,
        embed_dim=24,
        depth=2,
        num_heads=3,
        reg_tokens=2,
        qk_norm=qk_norm,
    )
    backbone.eval()
    images = torch.randn(2, 3, 32, 32)
    attention = backbone.timm_model.blocks[-1].attn
    for parameter in attention.parameters():
        nn.init.normal_(parameter, std=0.5)
    # timm's own explicit kernel, whose attention matrix passes through a dropout
    attention.fused_attn = False
    matrix = input_of(attention.attn_drop, lambda: backbone(images))
    attention.fused_attn = True
    heads = attention_maps(backbone, images)
    torch.testing.assert_close(heads.flatten(2), matrix[:, :, 0, 3:])
    torch.testing.assert_close(heat_map(backbone, images), heads.sum(1))


def test_the_backbone_runs_as_in_training_and_keeps_no_hook(monkeypatch):
    vit = tiny_vit()
    calls = []
    attention = vit.layers[-1].attn
    fused = attention.scaled_dot_product_attention
    monkeypatch.setattr(
        attention,
        'scaled_dot_product_attention',
        lambda *args, **kwargs: calls.append(1) or fused(*args, **kwargs),
    )
    heat_map(vit, torch.randn(1, 3, 32, 32))
    assert calls == [1]
    assert not attention.qkv._forward_hooks


def test_cnn_heat_is_the_sum_of_the_last_feature_maps():
    torch.manual_seed(0)
    resnet = ResNet(18, out_indices=(2, 3))
    resnet.eval()
    images = torch.randn(2, 3, 64, 96)
    with torch.no_grad():
        expected = resnet(images)[-1].sum(1)
        heat = heat_map(resnet, images)
    assert heat.shape == (2, 2, 3)
    torch.testing.assert_close(heat, expected)


def test_caformer_heat_is_read_in_front_of_the_norm_that_levels_it():
    torch.manual_seed(0)
    backbone = TIMMBackbone('caformer_s18')
    backbone.eval()
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        maps = backbone.timm_model.forward_features(images)
        heat = heat_map(backbone, images)
    torch.testing.assert_close(heat, maps.sum(1))
    assert (heat.flatten(1).std(dim=1) > 1e-2).all()


def test_channels_that_cancel_out_are_a_flat_heat_map():
    torch.manual_seed(0)
    maps = nn.functional.layer_norm(torch.randn(2, 4, 4, 64), (64,))
    heat = heat_map(nn.Identity(), maps.permute(0, 3, 1, 2))
    assert (heat == 0).all()


def test_a_vit_without_cls_token_is_read_as_feature_maps():
    vit = tiny_vit(with_cls_token=False, out_type='featmap')
    images = torch.randn(1, 3, 32, 32)
    torch.testing.assert_close(heat_map(vit, images), vit(images)[-1].sum(1))
    with pytest.raises(NoAttentionError, match='VisionTransformer has no attention'):
        attention_maps(vit, images)


class Vectors(nn.Module):
    """A network that no function knows."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images):
        return (self.scale * images.mean(dim=(2, 3)),)


@pytest.mark.parametrize(
    'ask, sentence',
    [
        (heat_map, r'Vectors returns features of shape \(1, 3\), not maps'),
        (patch_tokens, r'Vectors returns features of shape \(1, 3\), not maps'),
        (attention_maps, r'Vectors has no attention from a \[cls\] token'),
        (lambda network, images: blocks(network), 'blocks of Vectors.* not known'),
    ],
)
def test_an_unknown_network_is_named(ask, sentence):
    with pytest.raises(InputError, match=f'{sentence}.*anatomy.*register'):
        ask(Vectors(), torch.rand(1, 3, 4, 4))


@pytest.mark.parametrize(
    'question', [embedding, patch_tokens, attention_maps, heat_map]
)
def test_a_registered_function_answers_for_a_class_and_its_subclasses(question):
    base = type('MyBackbone', (Vectors,), {})
    mine = type('MySmallBackbone', (base,), {})
    question.register(base, lambda backbone, images: images + 1)
    images = torch.rand(1, 3, 4, 4)
    assert torch.equal(question(mine(), images), images + 1)


def test_a_registered_embedding_reaches_latents_and_width():
    mine = type('MyBackbone', (Vectors,), {})
    embedding.register(mine, lambda backbone, images: images.flatten(1))
    images = torch.rand(2, 3, 4, 4)
    assert torch.equal(embed_views(mine(), None, [images]), images.flatten(1))
    assert embedding_width(mine(), 4) == 48


def test_registered_attention_gives_the_heat_map():
    mine = type('MyBackbone', (Vectors,), {})
    attention_maps.register(mine, lambda backbone, images: images)
    images = torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(heat_map(mine(), images), images.sum(1))


TIMM_VIT = dict(model_name='vit_tiny_patch16_224', img_size=32, depth=1)


@pytest.mark.parametrize(
    'build, width, cls_token, patch',
    [
        (lambda: tiny_vit(), 24, True, 8),
        (lambda: tiny_vit(with_cls_token=False, out_type='featmap'), 24, False, 8),
        (lambda: ResNet(18), 512, False, 1),
        (lambda: TIMMBackbone(**TIMM_VIT), 192, True, 16),
        (
            lambda: TIMMBackbone(**TIMM_VIT, class_token=False, global_pool='avg'),
            192,
            False,
            16,
        ),
        (lambda: TIMMBackbone('resnet10t'), 512, False, 1),
    ],
    ids=[
        'vit',
        'vit without cls',
        'resnet',
        'timm vit',
        'timm without cls',
        'timm cnn',
    ],
)
def test_width_cls_token_and_patch_size(build, width, cls_token, patch):
    network = build()
    network.train()
    assert embedding_width(network, 32) == width
    assert network.training
    assert has_cls_token(network) is cls_token
    assert patch_size(network) == patch


def test_embeddings_are_the_last_token_or_the_mean_over_positions():
    maps, tokens, cls = torch.rand(2, 5, 3, 4), torch.rand(2, 7, 5), torch.rand(2, 5)
    for features, expected in (
        (maps, maps.flatten(2).mean(2)),
        ((cls, tokens), sum(tokens.unbind(1)) / 7),
        ([[maps, cls]], cls),
    ):
        torch.testing.assert_close(pool_features(features), expected)
    with pytest.raises(ValueError, match=r'but got \(5,\)'):
        pool_features(torch.rand(5))


def test_blocks_run_from_first_to_last():
    vit = tiny_vit()
    assert blocks(vit) == [vit.layers[0], vit.layers[1]]
    resnet = ResNet(18)
    found = blocks(resnet)
    assert len(found) == 8
    assert found[0] is resnet.layer1[0] and found[-1] is resnet.layer4[1]


@pytest.mark.parametrize('out_type', ['cls_token', 'raw', 'featmap'])
def test_patch_tokens_of_a_vit_do_not_depend_on_its_out_type(out_type):
    images = torch.randn(2, 3, 24, 40)
    network = tiny_vit(out_type=out_type, out_indices=[0])
    with torch.no_grad():
        before = network(images)[0]
        tokens = patch_tokens(network, images)
        expected = tiny_vit(out_type='raw')(images)[-1][:, 1:]
        assert torch.equal(network(images)[0], before)
    assert tokens.shape == (2, 24, 3, 5)
    assert torch.equal(tokens.flatten(2).transpose(1, 2), expected)


def test_patch_tokens_of_a_cnn_are_its_last_map():
    network = ResNet(18, out_indices=(1, 3))
    network.eval()
    images = torch.randn(1, 3, 64, 96)
    with torch.no_grad():
        assert torch.equal(patch_tokens(network, images), network(images)[-1])


def test_patch_tokens_of_a_timm_vit_are_those_after_its_last_norm():
    network = TIMMBackbone(
        'vit_tiny_patch16_224', img_size=32, depth=1, dynamic_img_size=True
    )
    network.eval()
    images = torch.randn(1, 3, 32, 48)
    with torch.no_grad():
        tokens = patch_tokens(network, images)
        expected = network.timm_model.forward_features(images)[:, 1:]
    assert tokens.shape == (1, 192, 2, 3)
    assert torch.equal(tokens[0].flatten(1).T, expected[0])
    fixed = TIMMBackbone('vit_tiny_patch16_224', img_size=32, depth=1)
    with pytest.raises(ValueError, match='dynamic_img_size=True'):
        patch_tokens(fixed, images)
