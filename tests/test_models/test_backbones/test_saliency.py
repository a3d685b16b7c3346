"""Heat maps are the attention or the feature maps they say they are."""

import pytest
import torch
from mmpretrain.models.backbones import ResNet, TIMMBackbone, VisionTransformer
from mmpretrain.models.selfsup import MoCoV3ViT
from torch import nn

from mmbam.models.backbones.saliency import (
    attention_maps,
    boxes_from_heat_maps,
    heat_map,
)

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
    with pytest.raises(TypeError, match='VisionTransformer has no attention'):
        attention_maps(vit, images)


def test_an_unknown_backbone_is_named_and_can_be_registered():
    class Vectors(nn.Module):
        def forward(self, images):
            return (images.mean(dim=(2, 3)),)

    images = torch.rand(1, 3, 4, 4)
    with pytest.raises(TypeError, match=r'Vectors returns features of shape \(1, 3\)'):
        heat_map(Vectors(), images)
    heat_map.register(Vectors, lambda backbone, images: images[:, 0])
    torch.testing.assert_close(heat_map(Vectors(), images), images[:, 0])


def slow_box(heat, threshold, size):
    heat = (heat - heat.min()) / (heat.max() - heat.min())
    heat = nn.functional.interpolate(heat[None, None], (size, size), mode='bilinear')
    warm = [
        (row, column)
        for row in range(size)
        for column in range(size)
        if heat[0, 0, row, column] > threshold
    ]
    rows, columns = zip(*warm)
    h0, h1, w0, w1 = min(rows), max(rows) + 1, min(columns), max(columns) + 1
    return [h0 / size, w0 / size, h1 / size, w1 / size]


def test_boxes_of_a_batch_equal_a_loop_over_pixels():
    torch.manual_seed(0)
    heat = torch.randn(6, 7, 7).exp() ** 3
    heat[0] = 0
    heat[0, 2, 5] = 1
    boxes = boxes_from_heat_maps(heat, threshold=0.3, size=28)
    expected = torch.tensor([slow_box(h, 0.3, 28) for h in heat])
    torch.testing.assert_close(boxes, expected)
    assert (expected[:, 2] < 1).any() and (expected[:, 1] > 0).any()


@pytest.mark.parametrize('value', [0.0, 1.0, -3e5, float('nan'), float('inf')])
def test_a_map_that_says_nothing_gives_the_whole_image(value):
    heat = torch.rand(2, 7, 7)
    heat[0] = value
    if value == 1.0:  # rounding is not heat
        heat[0, 3, 3] += torch.finfo().eps
    boxes = boxes_from_heat_maps(heat)
    assert boxes[0].tolist() == [0, 0, 1, 1]
    heat[0] = torch.rand(7, 7)
    torch.testing.assert_close(boxes[1], boxes_from_heat_maps(heat)[1])


def test_low_precision_heat_maps_give_float32_boxes():
    assert boxes_from_heat_maps(torch.rand(1, 4, 4).bfloat16()).dtype == torch.float32
