"""From every project's file to every library, with the features that it came with."""

from __future__ import annotations

import numpy as np
import pytest
import timm
import torch

from mmbam.checkpoints import load_backbone
from mmbam.exporting import FORMATS, export_backbone
from mmbam.utils.errors import InputError
from tests.helpers import sources
from tests.helpers.exported import NETWORKS, need, opener, place
from tests.helpers.networks import mm_vit, randomise, timm_vit
from tests.helpers.transformers_env import need_transformers, run_there

VIT = dict(NETWORKS['vit'], type='mmpretrain.VisionTransformer')


@pytest.fixture(scope='module')
def networks():
    def resnet():
        return randomise(timm.create_model('resnet18', num_classes=7))

    return dict(vit=sources.two(timm_vit), resnet=sources.two(resnet))


@pytest.mark.parametrize('to', FORMATS)
@pytest.mark.parametrize(
    'make', [*sources.OF_VIT, sources.moco_v2], ids=lambda make: make.__name__
)
def test_a_file_of_any_project_leaves_for_any_library(
    make, to, networks, tmp_path, in_process
):
    need(to)
    kind = 'resnet' if make is sources.moco_v2 else 'vit'
    backbone = VIT if kind == 'vit' else NETWORKS['resnet']
    config = tmp_path / 'config.py'
    optim = dict(optimizer=dict(type='AdamW', lr=1))
    config.write_text(f'model = dict(backbone={backbone!r})\noptim_wrapper = {optim}\n')
    path = make(*networks[kind], tmp_path)
    out = place(tmp_path / 'new', to)
    _, certificate = export_backbone(
        path, to, out, config=config, size=32, python=opener(to)
    )
    assert certificate['result'] == 'verified'
    # The config that was given is not how the file was trained.
    assert certificate['source'].keys().isdisjoint({'data', 'optimizer'})
    if make is sources.moco_v3:
        assert certificate['source']['method'] == 'MoCo v3'


@pytest.mark.parametrize('to', FORMATS)
def test_a_folder_of_the_hub_says_itself_what_it_holds(to, tmp_path, in_process):
    need(to)
    arguments = dict(img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=4)
    network = randomise(timm.create_model('vit_tiny_patch16_224', **arguments))
    config = dict(architecture='vit_tiny_patch16_224', model_args=arguments)
    folder = sources.hf_folder(tmp_path, sources.bare(network), config)
    out = place(tmp_path / 'new', to)
    _, certificate = export_backbone(folder, to, out, python=opener(to))
    assert certificate['result'] == 'verified'
    assert certificate['source']['network'] == 'vit_tiny_patch16_224 of timm'


def test_a_file_without_a_config_takes_the_name_of_a_network_of_timm(
    tmp_path, in_process
):
    network = timm.create_model('test_vit', num_classes=5)
    path = sources.dino_backbone(network, None, tmp_path)
    out = tmp_path / 'b.safetensors'
    export_backbone(path, 'safetensors', out, model='test_vit')
    # It takes images of any size, but its positions are made for 160 pixels.
    _, certificate = export_backbone(path, 'hf', tmp_path / 'hf', model='test_vit')
    assert certificate['libraries']['timm']['result'] == 'verified'
    with pytest.raises(InputError, match='exclude each other'):
        export_backbone(path, 'timm', out, model='test_vit', config='x.py')
    with pytest.raises(InputError, match='with --config, or a network .* --model'):
        export_backbone(path, 'timm', tmp_path / 'b.pth')


# Small networks of transformers itself, and the features that it finds in them.
WRITE = """
import torch
from pathlib import Path
from transformers import (
    Dinov2Config, Dinov2Model, Dinov2WithRegistersConfig, Dinov2WithRegistersModel,
    ViTConfig, ViTForImageClassification, ViTMAEConfig, ViTMAEForPreTraining, ViTModel,
)
torch.manual_seed(0)
small = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, image_size=32)
small.update(patch_size=8, layer_norm_eps=1e-6)
decoder = {f'decoder_{key}': value for key, value in dict(
    hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=8,
).items()}
networks = dict(
    vit=ViTModel(ViTConfig(**small, intermediate_size=48)),
    classifier=ViTForImageClassification(ViTConfig(**small, intermediate_size=48)),
    mae=ViTMAEForPreTraining(ViTMAEConfig(
        **small, **decoder, intermediate_size=48, mask_ratio=0.0)),
    dinov2=Dinov2Model(Dinov2Config(**small, mlp_ratio=2)),
    registers=Dinov2WithRegistersModel(Dinov2WithRegistersConfig(**small, mlp_ratio=2)),
)
with torch.no_grad():
    for name, network in networks.items():
        network.eval()
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        folder = Path(FOLDER, name)
        network.save_pretrained(folder)
        encoder = getattr(network, 'vit', network)
        (folder / 'features').write_bytes(
            encoder(torch.ones(1, 3, 32, 32)).last_hidden_state[0, 0].numpy().tobytes()
        )
"""


def test_what_transformers_saves_arrives(tmp_path):
    need_transformers()
    assert run_there(f'FOLDER = {str(tmp_path)!r}\n{WRITE}') == ''
    for name in ('vit', 'classifier', 'mae', 'dinov2'):
        scale = dict(layer_scale_init_value=1.0) if name == 'dinov2' else {}
        network = mm_vit(**scale)
        load_backbone(network, tmp_path / name)
        features = np.frombuffer((tmp_path / name / 'features').read_bytes(), 'float32')
        with torch.no_grad():
            found = network(torch.ones(1, 3, 32, 32))[-1][0]
        np.testing.assert_allclose(found, features, atol=1e-5, err_msg=name)
    with pytest.raises(InputError, match='registers .register_tokens'):
        load_backbone(mm_vit(layer_scale_init_value=1.0), tmp_path / 'registers')
