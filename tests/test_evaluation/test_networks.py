"""The network of a checkpoint: named, or told by the file, of which nothing runs."""

import pytest
import timm
import torch

import mmbam.models  # noqa: F401 (registers what configs name)
from mmbam.evaluation.frozen import build_frozen
from mmbam.evaluation.networks import network_config
from tests.helpers import sources
from tests.helpers.networks import mm_vit, randomise, timm_vit

IMAGE = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
BAM = """
model = dict(
    backbone=dict(
        arch=dict(
            embed_dims=24, feedforward_channels=48, num_heads=4, num_layers=2),
        img_size=32,
        init_cfg=dict(checkpoint='evil.pth', type='Pretrained'),
        patch_size=8,
        type='{type}'),
    data_preprocessor=dict(
        mean=[127.0, 127.0, 127.0], std=[60.0, 60.0, 60.0], to_rgb=True,
        type='SelfSupDataPreprocessor'),
    type='mmbam.BAM')
custom_hooks = [
    dict(
        test_dataset=dict(
            pipeline=[
                dict(scale=40, type='ResizeEdge'),
                dict(crop_size=32, type='CenterCrop'),
                dict(type='PackInputs'),
            ]),
        type='mmbam.KNNHook'),
]
lr = -1e-05
limits = dict(a=-inf)
odd = print('never run')
"""


def save(folder, text, network=None):
    weights = sources.named(network or mm_vit('MoCoV3ViT'), 'backbone.')
    return sources.saved(folder, dict(state_dict=weights, meta=dict(cfg=text)))


@torch.no_grad()
def test_a_checkpoint_of_a_run_tells_its_network(tmp_path, capsys):
    network = mm_vit('MoCoV3ViT')
    path = save(tmp_path, BAM.replace('{type}', 'mmbam.ClsViT'), network)
    cfg = network_config(path)
    assert cfg.size == 32
    backbone, preprocessor = build_frozen(cfg, path)
    assert torch.equal(backbone(IMAGE)[-1], network(IMAGE)[-1])
    assert preprocessor.mean.flatten().tolist() == [127.0] * 3
    assert 'never run' not in capsys.readouterr().out


@pytest.mark.parametrize(
    'kind', ['subprocess.run', 'os.system', 'mmpretrain.Blip2Caption', 'builtins.eval']
)
def test_types_that_are_no_backbones_are_refused(tmp_path, kind):
    with pytest.raises(ValueError, match=kind):
        network_config(save(tmp_path, BAM.replace('{type}', kind)))


@pytest.mark.parametrize(
    ('argument', 'named'),
    [
        ("norm_layer='subprocess.Popen'", 'subprocess.Popen'),
        ("model_name='hf-hub:some/where'", 'hf-hub:some/where'),
        ("norm_cfg=dict(type='pathlib.Path')", 'pathlib.Path'),
    ],
)
def test_arguments_that_lead_elsewhere_are_refused(tmp_path, argument, named):
    text = BAM.replace('{type}', 'mmbam.ClsViT').replace('patch_size=8', argument)
    with pytest.raises(ValueError, match=named):
        network_config(save(tmp_path, text))


@pytest.mark.parametrize(
    'text', ['', 'model = 1', 'model = print()', 'model = dict(', '(' * 10_000]
)
def test_a_file_that_does_not_tell_is_named(tmp_path, text):
    with pytest.raises(ValueError, match='a.pth.*--config.*--model'):
        network_config(save(tmp_path, text))


def test_a_config_and_a_model_exclude_each_other():
    with pytest.raises(ValueError, match='exclude'):
        network_config('a.pth', config='a.py', model='resnet18')


@torch.no_grad()
def test_a_network_of_timm_is_used_as_timm_uses_it(tmp_path):
    arguments = dict(img_size=32, depth=1, embed_dim=24, num_heads=4, patch_size=8)
    theirs = randomise(
        timm.create_model('vit_small_patch16_224', num_classes=0, **arguments)
    )
    path = sources.saved(tmp_path, theirs.state_dict())
    options = {f'model.backbone.{key}': value for key, value in arguments.items()}
    cfg = network_config(path, model='vit_small_patch16_224', size=32, options=options)
    backbone, _ = build_frozen(cfg, path)
    torch.testing.assert_close(backbone(IMAGE)[-1], theirs(IMAGE))


def test_a_folder_of_the_hub_tells_its_network(tmp_path):
    config = dict(
        architecture='vit_small_patch16_224',
        model_args=dict(
            img_size=32, depth=2, embed_dim=24, num_heads=4, patch_size=8, mlp_ratio=2,
            checkpoint_path='evil.pth', pretrained=True,
        ),
        pretrained_cfg=dict(input_size=[3, 32, 32], mean=[0.0] * 3, std=[1.0] * 3),
    )  # fmt: skip
    theirs = timm_vit(num_classes=0)
    path = sources.hf_folder(tmp_path, theirs.state_dict(), config)
    cfg = network_config(path)
    assert cfg.size == 32 and cfg.data_preprocessor.std == [255.0] * 3
    backbone, _ = build_frozen(cfg, path)
    with torch.no_grad():
        torch.testing.assert_close(backbone(IMAGE)[-1], theirs(IMAGE))


@pytest.mark.parametrize('name', ['vit_smal', 'local-dir:/tmp', 'hf-hub:a/b'])
def test_a_name_that_timm_does_not_have_is_refused(name):
    with pytest.raises(ValueError, match=f'no network {name!r}'):
        network_config('a.pth', model=name)
