"""A last block for [cls] alone: less work, the same network."""

from __future__ import annotations

import copy

import pytest
import torch
from mmengine.registry import MODELS

from mmbam.models import ClsViT, attention_maps, heat_map
from tests.helpers.tiny import VIT, bam_config, make_views


def build_both(**kwargs):
    networks = []
    for kind in ('mmpretrain.MoCoV3ViT', 'mmbam.ClsViT'):
        torch.manual_seed(0)
        network = MODELS.build({**copy.deepcopy(VIT), 'type': kind, **kwargs})
        with torch.no_grad():
            for p in network.parameters():
                p.add_(torch.randn_like(p), alpha=0.1)
        networks.append(network)
    plain, ours = networks
    ours.load_state_dict(plain.state_dict())
    return plain, ours


@pytest.mark.parametrize('size, qkv_bias', [(32, True), (16, True), (16, False)])
def test_output_and_gradients_are_those_of_the_whole_network(size, qkv_bias):
    plain, ours = build_both(qkv_bias=qkv_bias)
    images = torch.randn(4, 3, size, size, dtype=torch.float64)
    for network in (plain, ours):
        network.double()
        network.train()
        network(images)[-1].square().sum().backward()
    torch.testing.assert_close(ours(images)[-1], plain(images)[-1])
    others = dict(plain.named_parameters())
    for name, p in ours.named_parameters():
        if p.requires_grad:
            torch.testing.assert_close(p.grad, others[name].grad, msg=name)
        else:
            assert not others[name].requires_grad


def test_drop_path_and_layer_scale_are_those_of_the_whole_network():
    layers = dict(layer_scale_init_value=0.1)
    plain, ours = build_both(drop_path_rate=0.5, layer_cfgs=layers)
    images = torch.randn(16, 3, 16, 16)
    outputs = []
    for network in (plain, ours):
        network.train()
        torch.manual_seed(1)
        outputs.append(network(images)[-1])
    torch.testing.assert_close(*outputs, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(ours(images)[-1], outputs[1]), 'nothing was dropped'


def test_dropped_attention_has_the_mean_and_deviation_of_the_whole_networks():
    plain, ours = build_both(layer_cfgs=dict(attn_drop_rate=0.3))
    tokens = torch.randn(1, 17, 32).expand(4000, -1, -1)
    outputs = []
    for network in (plain, ours):
        block = network.layers[-1].train()
        with torch.no_grad():
            block.attn.qkv.bias[-32:] += 3  # dropped with the values that it belongs to
            outputs.append(block(tokens)[:, 0])
    expected, got = outputs
    assert expected.std(dim=0).min() > 0.05
    error = (got.mean(dim=0) - expected.mean(dim=0)).abs() / expected.std(dim=0)
    assert error.max() < 0.1, 'six standard errors of 4,000 draws'
    torch.testing.assert_close(got.std(dim=0), expected.std(dim=0), rtol=0.1, atol=0)


def test_half_floats_are_as_close_as_those_of_the_whole_network():
    plain, ours = build_both()
    torch.manual_seed(0)
    tokens = torch.randn(256, 17, 32)
    errors = []
    for network in (plain, ours):
        block = network.layers[-1].train()
        attend = block._attend if network is ours else block.attn
        block.attn.qkv.weight.data[:64].mul_(2)  # larger scores lose more digits
        with torch.no_grad():
            exact = attend(block.ln1(tokens))[:, 0]
            with torch.autocast('cpu', torch.bfloat16):
                errors.append((attend(block.ln1(tokens))[:, 0] - exact).norm())
    assert errors[1] < 1.08 * errors[0], errors


def test_patches_are_not_computed_in_training():
    _, ours = build_both()
    block, seen = ours.layers[-1], []
    block.ffn.register_forward_hook(lambda m, x, y: seen.append(y.shape[1]))
    block.attn.qkv.register_forward_hook(lambda m, x, y: seen.append('keys, values'))
    images = torch.randn(2, 3, 32, 32)
    for mode in (True, False):
        ours.train(mode)
        ours(images)
    assert seen == [1, 'keys, values', 17]


def test_where_it_looks_is_the_same():
    plain, ours = build_both()
    images = torch.randn(2, 3, 32, 32)
    for network in (plain, ours):
        network.eval()
    for look in (attention_maps, heat_map):
        torch.testing.assert_close(look(ours, images), look(plain, images))


@pytest.mark.parametrize('checkpointing', [False, True])
def test_bam_trains_it_as_it_trains_the_whole(checkpointing):
    losses, grads = [], []
    for kind in ('mmpretrain.MoCoV3ViT', 'mmbam.ClsViT'):
        cfg = bam_config(teacher=dict(type='mmbam.EMATeacher'))
        cfg['backbone']['type'] = kind
        cfg['grad_checkpointing'] = checkpointing
        torch.manual_seed(0)
        model = MODELS.build(cfg)
        model.init_weights()
        loss = model(make_views(), mode='loss')['loss']
        loss.backward()
        losses.append(loss)
        grads.append(model.backbone.layers[0].attn.qkv.weight.grad)
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-6)
    assert isinstance(model.teacher.backbone, ClsViT)


def test_maps_are_computed_as_a_whole():
    plain, ours = build_both(out_type='featmap')
    images = torch.randn(2, 3, 32, 32)
    for mode in (True, False):
        plain.train(mode)
        ours.train(mode)
        maps = [network(images)[-1] for network in (plain, ours)]
        assert maps[0].shape == (2, 32, 4, 4)
        torch.testing.assert_close(*maps)
