"""Arriving: each project's file gives the features of the network that wrote it."""

import logging
import os
import re

import pytest
import timm
import torch
from mmengine.logging import MMLogger
from mmpretrain.registry import MODELS

from mmbam.checkpoints import load_backbone, read_weights, select_backbone
from mmbam.models import FrozenTeacher
from tests.helpers import sources
from tests.helpers.hostile import Runs
from tests.helpers.networks import mm_resnet, mm_vit, randomise, timm_vit

IMAGE = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
NAMES = [make.__name__ for make in sources.OF_VIT]


@pytest.fixture(scope='module')
def vits():
    return sources.two(timm_vit)


@pytest.fixture(scope='module')
def resnets():
    return sources.two(lambda: randomise(timm.create_model('resnet18', num_classes=7)))


@pytest.fixture
def log():
    """What the log says."""
    lines = []

    class Keep(logging.Handler):
        def emit(self, record):
            lines.append((record.levelname, record.getMessage()))

    logger, handler = MMLogger.get_current_instance(), Keep(logging.INFO)
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


@torch.no_grad()
def of_timm(network):
    features = network.forward_features(IMAGE)
    return features[:, 0] if features.dim() == 3 else features


@torch.no_grad()
@pytest.mark.parametrize('make', sources.OF_VIT, ids=NAMES)
def test_a_vit_arrives(tmp_path, vits, make, log):
    path, ours = make(*vits, tmp_path), mm_vit()
    load_backbone(ours, path)
    torch.testing.assert_close(ours(IMAGE)[-1], of_timm(vits[0]), atol=1e-5, rtol=0)
    (line,) = [text for _, text in log]
    assert str(path) in line and 'into VisionTransformer with 4 heads' in line


@torch.no_grad()
@pytest.mark.parametrize('make', sources.OF_RESNET, ids=lambda make: make.__name__)
def test_a_resnet_arrives(tmp_path, resnets, make):
    path, ours = make(*resnets, tmp_path), mm_resnet(18)
    load_backbone(ours, path)
    torch.testing.assert_close(ours(IMAGE)[-1], of_timm(resnets[0]), atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize(
    'make, prefix',
    [
        (sources.moco_v3, 'module.momentum_encoder'),
        (sources.lightning, 'model.teacher_backbone.'),
        (sources.dino, 'student.module.backbone.'),
    ],
)
def test_a_prefix_names_the_other_network(tmp_path, vits, make, prefix):
    ours = mm_vit()
    load_backbone(ours, make(*vits, tmp_path), prefix=prefix)
    torch.testing.assert_close(ours(IMAGE)[-1], of_timm(vits[1]), atol=1e-5, rtol=0)


def test_a_frozen_teacher_reads_what_everything_reads(tmp_path, vits):
    path = sources.moco_v3(*vits, tmp_path)
    for prefix, network in ((None, 0), ('module.momentum_encoder', 1)):
        teacher = FrozenTeacher(mm_vit(), str(path), prefix=prefix)
        assert torch.equal(teacher.backbone.cls_token, vits[network].cls_token)


def test_a_momentum_encoder_is_a_teacher_for_who_asks(tmp_path, vits):
    weights = read_weights(sources.moco_v3(*vits, tmp_path))
    for source, network in (('auto', 0), ('student', 0), ('teacher', 1)):
        chosen, whose = select_backbone(weights, source)
        assert torch.equal(chosen['cls_token'], vits[network].cls_token)
        assert whose == ('teacher' if network else 'student')


def test_where_two_unknown_prefixes_fit_one_must_be_named(tmp_path, vits):
    weights = {**sources.named(vits[0], 'one.net.'), **sources.named(vits[1], 'two.')}
    path = sources.saved(tmp_path, weights)
    with pytest.raises(ValueError, match='2 networks that fit, below one.net. and two'):
        load_backbone(mm_vit(), path)
    ours = mm_vit()
    assert load_backbone(ours, path, prefix='two') == 'student'
    assert torch.equal(ours.cls_token, vits[1].cls_token)
    with pytest.raises(ValueError, match="'gone.': they begin with one, two"):
        load_backbone(ours, path, prefix='gone')


def refused(folder, network, weights, **kwargs):
    """The sentence that refuses weights."""
    with pytest.raises(ValueError) as error:
        load_backbone(network, sources.saved(folder, weights), **kwargs)
    sentence = str(error.value)
    assert '\n' not in sentence and len(sentence) < 6 * 80  # six lines
    return sentence


def test_what_is_left_over_is_an_error_but_for_heads(tmp_path, vits):
    weights = {**sources.bare(vits[0]), 'adapter.weight': torch.zeros(1)}
    sentence = refused(tmp_path, mm_vit(), weights)
    assert 'left over: adapter.weight; 30 of 30 weights match' in sentence
    assert 'more than a backbone' in sentence


@pytest.mark.parametrize('name', ['register_tokens', 'reg_token'])
def test_registers_are_named(tmp_path, vits, name):
    weights = {**sources.bare(vits[0]), name: torch.zeros(1, 4, 24)}
    assert f'has registers ({name})' in refused(tmp_path, mm_vit(), weights)


@pytest.mark.parametrize(
    'build, words',
    [
        (lambda: mm_vit(patch_size=4), r'another patch size \(8 x 8 for 4 x 4\)'),
        (lambda: mm_vit(in_channels=5), 'sees 3 bands, but this one sees 5'),
        (lambda: mm_vit(arch=dict(num_layers=3)), r'another depth \(2 blocks for 3\)'),
        (lambda: mm_vit(arch=dict(embed_dims=32)), r'another width \(24 for 32\)'),
        (lambda: mm_resnet(18), 'another kind of network'),
        (lambda: mm_vit(layer_scale_init_value=0.1), 'the file is incomplete'),
    ],
)
def test_the_most_likely_reason_is_said(tmp_path, vits, build, words):
    sentence = refused(tmp_path, build(), sources.bare(vits[0]))
    assert re.search(words, sentence), sentence
    for part in sentence.split('; '):  # three examples of each
        assert part.count(' and ') <= 1 and part.split(' and ')[0].count('.weight') <= 3


WIDE = dict(embed_dims=384, num_layers=1, feedforward_channels=48)


def wide_vit(heads):
    cfg = dict(type='VisionTransformer', arch=dict(WIDE, num_heads=heads), img_size=16)
    return MODELS.build(dict(cfg, patch_size=16))


def wide_of_timm():
    return timm.create_model(
        'vit_small_patch16_224', img_size=16, depth=1, mlp_ratio=0.125, num_classes=0
    )


@pytest.mark.parametrize(
    'make, heads',
    [
        (sources.timm, 6), (sources.dino, 6), (sources.ibot, 6), (sources.dinov2, 6),
        (sources.moco_v3, 12), (sources.release, 12), (sources.timm_folder, 6),
    ],
    ids=lambda value: getattr(value, '__name__', value),
)  # fmt: skip
def test_another_number_of_heads_is_warned_of(tmp_path, make, heads, log):
    path = make(*sources.two(wide_of_timm), tmp_path)
    for ours in (6, 12):
        log.clear()
        load_backbone(wide_vit(ours), path)
        assert f'with {ours} heads' in log[0][1]
        warned = [text for level, text in log if level == 'WARNING']
        assert len(warned) == (ours != heads)
        if warned:
            assert f'{heads} heads, but the config has {ours}' in warned[0]


@pytest.mark.parametrize(
    'arch',
    ["'mocov3-small'", 'dict(embed_dims=384, num_heads=12)'],
    ids=['name', 'dict'],
)
def test_the_config_in_a_file_tells_its_heads(tmp_path, arch, log):
    weights = sources.named(wide_vit(12), 'backbone.')
    config = f"model = dict(type='mmbam.BAM', backbone=dict(arch={arch}))\n"
    path = sources.saved(tmp_path, dict(state_dict=weights, meta=dict(cfg=config)))
    load_backbone(wide_vit(6), path)
    assert 'mmbam.BAM' in log[0][1] and 'has 12 heads' in log[1][1]


def test_a_folder_cannot_lead_out_of_itself(tmp_path):
    index = '{"weight_map": {"a": "../secret.pth"}}'
    (tmp_path / 'model.safetensors.index.json').write_text(index)
    with pytest.raises(ValueError, match='secret.pth.*no file name'):
        read_weights(tmp_path)


def test_code_in_a_folder_never_runs(tmp_path, vits):
    proof = tmp_path / 'ran'
    hostile = {**sources.bare(vits[0]), 'x': Runs(os.mkdir, str(proof))}
    torch.save(hostile, tmp_path / 'pytorch_model.bin')
    assert torch.equal(read_weights(tmp_path)['cls_token'], vits[0].cls_token)
    assert not proof.exists()


@pytest.mark.parametrize('content', ['[', '[1]', '[' * 100_000])
def test_a_broken_config_is_named(tmp_path, vits, content):
    place = sources.timm_folder(*vits, tmp_path)
    (place / 'config.json').write_text(content)
    with pytest.raises(ValueError, match='config.json'):
        read_weights(place)


def test_a_folder_without_weights_is_named(tmp_path):
    with pytest.raises(ValueError, match='model.safetensors'):
        read_weights(tmp_path)
