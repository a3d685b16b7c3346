"""The config in a checkpoint is read as data, and builds nothing but backbones."""

from __future__ import annotations

import os

import pytest
import torch

from mmbam.checkpoints import convert_checkpoint, read_weights
from mmbam.exporting.source import load_source
from mmbam.utils.errors import InputError
from tests.helpers.exported import NETWORKS, save_checkpoint
from tests.helpers.hostile import Runs


def with_backbone(path, **changes):
    save_checkpoint(path, 'vit')
    content = torch.load(path)
    backbone = {**NETWORKS['vit'], **changes}
    content['meta']['cfg'] = f'model = dict(type="mmbam.BAM", backbone={backbone!r})'
    torch.save(content, path)
    return path


@pytest.mark.parametrize(
    'changes',
    [
        dict(type='os.system', command='touch mark'),
        dict(type='mmbam.BAM'),
        dict(type='mmpretrain.HuggingFaceClassifier', model_name='x'),
        dict(patch_cfg=dict(conv_type='os.system')),
        dict(type='mmpretrain.TIMMBackbone', model_name='hf-hub:some/where'),
        dict(type='mmpretrain.TIMMBackbone', norm_layer='subprocess.Popen'),
        dict(layer_cfgs=dict(norm_cfg=dict(type='pathlib.Path'))),
        dict(norm_cfg=dict(type=3)),
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_a_config_in_a_checkpoint_that_names_other_things_is_refused(tmp_path, changes):
    path = with_backbone(tmp_path / 'a.pth', **changes)
    with pytest.raises(InputError, match='The config in'):
        load_source(path)


def test_what_would_fetch_other_weights_is_ignored(tmp_path):
    init = dict(type='Pretrained', checkpoint='http://nowhere/x.pth')
    path = with_backbone(tmp_path / 'a.pth', init_cfg=init)
    assert 'init_cfg' not in load_source(path).cfg


def test_a_text_that_is_no_data_is_no_config(tmp_path):
    path = with_backbone(tmp_path / 'a.pth')
    content = torch.load(path)
    content['meta']['cfg'] = f'model = __import__("os").mkdir({str(tmp_path / "x")!r})'
    torch.save(content, path)
    with pytest.raises(InputError, match='no config with a model.backbone: name one'):
        load_source(path)
    assert not (tmp_path / 'x').exists()


@pytest.mark.parametrize(
    'text', ['model = 3', 'model = dict(backbone="x")', 'text = 1']
)
def test_a_config_of_another_form_is_no_config(tmp_path, text):
    path = with_backbone(tmp_path / 'a.pth')
    content = torch.load(path)
    content['meta']['cfg'] = text
    torch.save(content, path)
    with pytest.raises(InputError, match='no config with a model.backbone: name one'):
        load_source(path)


def test_facts_of_another_form_are_left_out(tmp_path):
    path = with_backbone(tmp_path / 'a.pth')
    content = torch.load(path)
    content['meta']['cfg'] += (
        '\ntrain_cfg = 1\ndata_preprocessor = dict(mean=3, std="x")'
    )
    content['meta']['epoch'] = [1, {}]
    torch.save(content, path)
    facts = load_source(path).facts
    assert facts.keys().isdisjoint({'epochs', 'planned_epochs'})


def test_objects_in_a_checkpoint_are_not_called(tmp_path):
    path = with_backbone(tmp_path / 'a.pth')
    content = torch.load(path)
    content['meta']['hook'] = Runs(os.mkdir, str(tmp_path / 'mark'))
    torch.save(content, path)
    load_source(path)
    assert not (tmp_path / 'mark').exists()


def test_a_config_of_ones_own_takes_the_place_of_the_stored_one(tmp_path):
    path = with_backbone(tmp_path / 'a.pth', type='os.system')
    config = tmp_path / 'config.py'
    config.write_text(f'model = dict(backbone={NETWORKS["vit"]!r})\n')
    source = load_source(path, config, dict(model=dict(backbone=dict(patch_size=8))))
    assert source.size == 32 and source.dynamic
    # Positions for another size of images.
    assert load_source(path, config, size=48).backbone.pos_embed.shape[1] == 37


def test_facts_tell_of_the_training_and_of_no_path(tmp_path):
    save_checkpoint(tmp_path / 'a.pth', 'vit', teacher=False)
    facts = load_source(tmp_path / 'a.pth').facts
    assert facts['method'] == 'BAM' and facts['weights'] == 'student'
    assert facts['data'] == 'imagenet (ImageNet)' and facts['epochs'] == 7
    assert 'secret' not in str(facts) and str(tmp_path) not in str(facts)


def test_a_converted_file_is_what_its_name_says(tmp_path):
    save_checkpoint(tmp_path / 'a.pth', 'vit', teacher=False)
    for to in ('mmpretrain', 'timm'):
        weights = convert_checkpoint(tmp_path / 'a.pth', tmp_path / 'b.safetensors', to)
        found = read_weights(tmp_path / 'b.safetensors')
        assert found.keys() == weights.keys()
        assert all(torch.equal(found[name], weights[name]) for name in weights)
