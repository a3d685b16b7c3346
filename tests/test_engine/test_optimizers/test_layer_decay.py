"""Layer-wise learning-rate decay of a detector and of a segmentor."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, DefaultScope
from torch import nn

BENCHMARKS = Path(__file__).resolve().parents[3] / 'configs' / 'benchmarks'
COCO = 'coco/vit-b16_cascade-mask-rcnn_12e.py'
ADE20K = 'ade20k/vit-b16_upernet_160k.py'


def groups_of(config: str, num_layers: int, **paramwise) -> dict[str, dict]:
    """Groups of the optimiser by the name of their parameter; none has two."""
    cfg = Config.fromfile(BENCHMARKS / config)
    cfg.model.backbone.arch.num_layers = num_layers
    cfg.model.backbone.out_indices = [num_layers - 1] * 4
    cfg.optim_wrapper.paramwise_cfg.update(paramwise)
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        with torch.device('meta'):  # in full width, without the memory for it
            model = MODELS.build(cfg.model)
        wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = {}
    for group in wrapper.param_groups:
        if group['params'][0] in names:  # mmengine adds a group of its own
            (parameter,) = group['params']
            groups[names.pop(parameter)] = group
    assert not names, 'every parameter is trained'
    return groups


@pytest.mark.parametrize('config, lr', [(COCO, 1e-4), (ADE20K, 8e-5)])
def test_rates_fall_from_the_head_to_the_embedding(config, lr):
    groups = groups_of(config, num_layers=2, layer_decay_rate=0.5)
    expected = {
        'backbone.cls_token': 0.125,
        'backbone.pos_embed': 0.125,
        'backbone.patch_embed.': 0.125,
        'backbone.layers.0.': 0.25,
        'backbone.layers.1.': 0.5,
        'backbone.ln1.': 1.0,
        'neck.': 1.0,
        'rpn_head.': 1.0,
        'roi_head.': 1.0,
        'decode_head.': 1.0,
        'auxiliary_head.': 1.0,
    }
    assert ('backbone.ln1.weight' in groups) == (config == ADE20K)
    for name, group in groups.items():
        (scale,) = [s for start, s in expected.items() if name.startswith(start)]
        assert group['lr'] == pytest.approx(scale * lr, rel=1e-9), name


@pytest.mark.parametrize(
    'config, first, embedding',
    # 0.75 ** 12 and 13 times 1e-4; 0.65 ** 12 and 13 times 8e-5.
    [(COCO, 3.1676352e-6, 2.3757264e-6), (ADE20K, 4.5504074e-7, 2.9577648e-7)],
)
def test_twelve_blocks_learn_at_the_rates_of_the_recipe(config, first, embedding):
    groups = groups_of(config, num_layers=12)
    rate = groups['backbone.layers.0.attn.qkv.weight']['lr']
    assert rate == pytest.approx(first, rel=1e-6)
    rate = groups['backbone.patch_embed.projection.weight']['lr']
    assert rate == pytest.approx(embedding, rel=1e-6)


@pytest.mark.parametrize('config', [COCO, ADE20K])
def test_only_matrices_and_kernels_decay(config):
    decays = {
        name: group['weight_decay']
        for name, group in groups_of(config, num_layers=2).items()
    }
    assert decays['backbone.layers.0.attn.qkv.weight'] == 0.05
    assert decays['backbone.patch_embed.projection.weight'] == 0.05
    for name in ('cls_token', 'pos_embed', 'layers.0.ln1.weight', 'layers.1.ln2.bias'):
        assert decays[f'backbone.{name}'] == 0.0
    heads = {name: v for name, v in decays.items() if not name.startswith('backbone')}
    flat = {name for name in heads if name.endswith('.bias') or '.bn.' in name}
    assert flat and all(heads[name] == 0.0 for name in flat)
    assert any(value == 0.05 for value in heads.values())


def build(model: nn.Module, **paramwise):
    cfg = dict(
        optimizer=dict(type='AdamW', lr=1.0, weight_decay=0.1),
        constructor='mmbam.LayerDecayOptimWrapperConstructor',
        paramwise_cfg=paramwise,
    )
    return build_optim_wrapper(model, cfg)


@pytest.mark.parametrize('rate', [0, -0.5, 1.5])
def test_a_rate_outside_of_0_to_1_is_named(rate):
    with pytest.raises(ValueError, match=f'layer_decay_rate .* got {rate}'):
        build(nn.Linear(1, 1), layer_decay_rate=rate)


def test_a_backbone_that_knows_no_depths_is_named():
    model = nn.Module()
    model.backbone = nn.Linear(1, 1)
    with pytest.raises(ValueError, match='get_layer_depth.*Module has Linear'):
        build(model, layer_decay_rate=0.5)
