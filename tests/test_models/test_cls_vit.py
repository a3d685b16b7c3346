"""A last block for [cls] alone: less work, the same network."""

from __future__ import annotations

import copy

import pytest
import torch
from mmengine.registry import MODELS

from mmbam.models import ClsViT, attention_maps, heat_map
from tests.tiny import VIT, bam_config, make_views


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


def test_patches_are_not_computed_in_training():
    _, ours = build_both()
    seen = []
    ours.layers[-1].ffn.register_forward_hook(lambda m, x, y: seen.append(y.shape[1]))
    images = torch.randn(2, 3, 32, 32)
    for mode in (True, False):
        ours.train(mode)
        ours(images)
    assert seen == [1, 17]


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
