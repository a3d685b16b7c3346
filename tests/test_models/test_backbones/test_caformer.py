"""CAFormer against timm's own network, put together here from timm's parts.

Its embedding is the final norm of the mean over positions, wherever it is used.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import timm
import torch
from mmengine.config import Config
from mmengine.registry import MODELS
from mmpretrain.models.backbones import TIMMBackbone
from timm.models import metaformer as parts
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mmbam.checkpoints import convert_checkpoint, load_backbone
from mmbam.evaluation import extract_features
from mmbam.models import CAFormer, embed_views, embedding, heat_map
from tests.helpers.networks import randomise

ROOT = Path(__file__).resolve().parents[3]
S18 = dict(depths=(3, 3, 9, 3), dims=(64, 128, 320, 512))
M36 = dict(depths=(3, 12, 18, 3), dims=(96, 192, 384, 576))
IMAGES = torch.randn(3, 3, 64, 96, generator=torch.Generator().manual_seed(0))


def reference(depths, dims) -> nn.Module:
    """The paper's network: GELU everywhere, no residual scaling, timm's own head."""
    return parts.MetaFormer(
        num_classes=0,
        depths=depths,
        dims=dims,
        token_mixers=[parts.SepConv] * 2 + [parts.Attention] * 2,
        norm_layers=[parts.LayerNorm2dNoBias] * 2 + [parts.LayerNormNoBias] * 2,
        mlp_act=nn.GELU,
        act1_layer=nn.GELU,
        res_scale_init_values=(None,) * 4,
    )


@pytest.fixture(scope='module')
def theirs() -> nn.Module:
    network = randomise(reference(**S18), seed=3)
    # Of a size that shows whether the norm comes before or after the mean.
    nn.init.normal_(network.head.norm.weight, mean=1.0, std=0.5)
    return network


@pytest.fixture(scope='module')
def expected(theirs) -> torch.Tensor:
    with torch.no_grad():
        return theirs.forward_head(theirs.forward_features(IMAGES), pre_logits=True)


@pytest.fixture(scope='module')
def released(theirs, tmp_path_factory) -> Path:
    """A file with the names of the authors' release."""
    path = tmp_path_factory.mktemp('released') / 'checkpoint.pth'
    weights = theirs.state_dict()
    weights = {f'teacher.backbone.{name}': value for name, value in weights.items()}
    torch.save(dict(model=weights), path)
    return path


@pytest.fixture(scope='module')
def ours(released) -> nn.Module:
    network = CAFormer('s18')
    assert load_backbone(network, released) == 'teacher'
    network.eval()  # mmpretrain's backbones return nothing here
    return network


def test_the_expected_vector_is_the_norm_of_the_mean(theirs, expected):
    """By hand, so that the reference itself is checked; the other order differs."""
    norm = theirs.head.norm
    with torch.no_grad():
        maps = theirs.forward_features(IMAGES)
        mean = maps.flatten(2).mean(2)
        centered = mean - mean.mean(1, keepdim=True)
        deviation = (mean.var(1, unbiased=False, keepdim=True) + norm.eps).sqrt()
        by_hand = centered / deviation * norm.weight + norm.bias
        other_order = norm(maps).flatten(2).mean(2)
    torch.testing.assert_close(expected, by_hand, rtol=1e-4, atol=1e-5)
    assert (other_order - expected).abs().max() > 0.1


@torch.no_grad()
def test_released_weights_give_timms_embedding_everywhere(ours, expected, tmp_path):
    close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)
    close(embedding(ours, IMAGES), expected)
    close(ours(IMAGES)[-1], expected)  # what any neck of mmpretrain sees
    close(embed_views(ours, None, [IMAGES, IMAGES]), expected.repeat(2, 1))
    loader = DataLoader(TensorDataset(IMAGES, torch.arange(3)), batch_size=2)
    close(extract_features(ours, loader, progress=False)[0], expected)  # k-NN's


@torch.no_grad()
def test_the_linear_probe_sees_timms_embedding(released, expected):
    path = ROOT / 'configs/benchmarks/linear/caformer-m36_linear_100e.py'
    cfg = Config.fromfile(path).model
    # Smaller, by the width alone.
    text = json.dumps(cfg.to_dict()).replace('576', '512').replace('m36', 's18')
    model = MODELS.build(dict(json.loads(text), _scope_='mmpretrain'))
    load_backbone(model.backbone, released)
    (seen,) = model.train().extract_feat(IMAGES)
    deviation = expected.var(0, unbiased=False).add(1e-6).sqrt()
    wanted = (expected - expected.mean(0)) / deviation
    torch.testing.assert_close(seen, wanted, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_converted_weights_give_the_embedding_in_timm(ours, expected, tmp_path):
    weights = {f'backbone.{k}': v for k, v in ours.state_dict().items()}
    torch.save(dict(state_dict=weights), tmp_path / 'ours.pth')
    convert_checkpoint(tmp_path / 'ours.pth', tmp_path / 'timm.pth', 'timm')
    network = reference(**S18).eval()
    timm.models.load_checkpoint(network, str(tmp_path / 'timm.pth'), strict=True)
    torch.testing.assert_close(network(IMAGES), expected, rtol=1e-5, atol=1e-5)


def test_checkpoints_of_earlier_versions_load(ours, tmp_path):
    """Their names are those of mmpretrain's wrapper, whose output was a map."""
    earlier = TIMMBackbone('caformer_s18', res_scale_init_values=(None,) * 4)
    names = [n for n in earlier.state_dict() if '.act' not in n]  # of StarReLU
    assert list(ours.state_dict()) == names
    weights = {f'backbone.{k}': v for k, v in ours.state_dict().items()}
    torch.save(dict(state_dict=weights), tmp_path / 'epoch_300.pth')
    assert load_backbone(CAFormer('s18'), tmp_path / 'epoch_300.pth') == 'student'


def test_there_is_neither_star_relu_nor_residual_scale(ours):
    names = {type(module).__name__ for module in ours.modules()}
    assert 'GELU' in names and 'StarReLU' not in names
    assert not any('res_scale' in name for name, _ in ours.named_parameters())


def test_m36_has_the_shapes_of_the_paper():
    with torch.device('meta'):
        mine, theirs = CAFormer('m36').timm_model, reference(**M36)
    shapes = {name: value.shape for name, value in theirs.state_dict().items()}
    assert {n: v.shape for n, v in mine.state_dict().items()} == shapes
    assert sum(p.numel() for p in mine.parameters()) == pytest.approx(53e6, rel=0.02)


def test_only_known_sizes_are_built():
    with pytest.raises(ValueError, match="arch must be one of .*but got 'x'"):
        CAFormer('x')


@torch.no_grad()
def test_heat_and_stages_come_before_the_final_norm(ours, theirs, released):
    maps = theirs.forward_features(IMAGES)
    torch.testing.assert_close(heat_map(ours, IMAGES), maps.sum(1))
    stages = CAFormer('s18', features_only=True)  # for dense tasks
    stages.eval()
    load_backbone(stages, released)
    outputs = stages(IMAGES)
    assert [tuple(out.shape[2:]) for out in outputs] == [
        (16, 24), (8, 12), (4, 6), (2, 3)
    ]  # fmt: skip
    torch.testing.assert_close(outputs[-1], maps, rtol=1e-5, atol=1e-5)
    assert embedding(stages, IMAGES).shape == (3, 512)


@pytest.mark.parametrize(
    'name, options',
    [
        ('caformer_s18', {}),
        ('convnext_atto', {}),  # a norm after the mean
        ('mobilenetv3_small_050', {}),  # a layer after the mean
        ('resnet10t', {}),
        (
            'swin_tiny_patch4_window7_224',  # channels last
            dict(img_size=64, depths=(1, 1), embed_dim=24, num_heads=(2, 2)),
        ),
    ],
)
@torch.no_grad()
def test_networks_in_mmpretrains_wrapper_embed_as_in_timm(name, options):
    network = randomise(timm.create_model(name, num_classes=0, **options))
    wrapper = TIMMBackbone(name, **options)
    wrapper.timm_model.load_state_dict(network.state_dict(), strict=False)
    images = IMAGES[..., :64]
    wanted = network(images)
    assert wanted.dim() == 2 and wanted.std() > 0
    wrapper.eval()
    torch.testing.assert_close(embedding(wrapper, images), wanted, rtol=1e-4, atol=1e-5)
