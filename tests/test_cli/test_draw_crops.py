"""`mmbam draw crops`: a picture of crops, and how many of them are empty."""

import json
import re

import cv2
import numpy as np
import pytest
import torch
from mmpretrain.models.backbones import ResNet

from mmbam.datasets.coco import encode_mask
from tests.helpers.run import run_verb

CONFIG = """
model = dict(backbone=dict(
    type='ResNet', depth=18, stem_channels=4, base_channels=4, num_stages=1,
    strides=(1,), dilations=(1,), out_indices=(0,)))
data_preprocessor = dict(type='SelfSupDataPreprocessor', mean=[0] * 3, std=[255] * 3)
train_dataloader = dict(dataset=dict(
    type='CustomDataset', data_root={root!r}, with_label=False,
    pipeline=[dict(type='mmbam.LoadImage'), {crop}, dict(type='PackInputs')]))
custom_hooks = [dict(type='mmbam.LocalizeHook', image_size=64)]
"""


@pytest.fixture
def project(tmp_path):
    """Bright squares on black in COCO's layout, a config, and weights that see them."""
    (tmp_path / 'val2017').mkdir()
    (tmp_path / 'annotations').mkdir()
    rng = np.random.default_rng(0)
    images, annotations = [], []
    for i in range(12):
        mask = np.zeros((64, 96), bool)
        top, left = rng.integers(8, 36, 2)
        mask[top : top + 20, left : left + 20] = True
        name = f'{i}.png'
        image = np.repeat(mask[..., None], 3, axis=2).astype(np.uint8) * 255
        cv2.imwrite(str(tmp_path / 'val2017' / name), image)
        images.append(dict(id=i, file_name=name, height=64, width=96))
        annotations.append(dict(image_id=i, segmentation=encode_mask(mask)))
    content = dict(images=images, annotations=annotations)
    (tmp_path / 'annotations/instances_val2017.json').write_text(json.dumps(content))
    crop = "dict(type='mmbam.ContrastiveCrop', scale=32)"
    text = CONFIG.format(root=str(tmp_path / 'val2017'), crop=crop)
    (tmp_path / 'config.py').write_text(text)
    backbone = ResNet(
        18, stem_channels=4, base_channels=4, num_stages=1, strides=(1,),
        dilations=(1,), out_indices=(0,),
    )  # fmt: skip
    with torch.no_grad():
        for name, value in backbone.named_parameters():
            # Filters of their central pixel: the brighter an image, the warmer.
            value.fill_(float(name.endswith('weight')))
            if value.dim() == 4:
                value.zero_()[:, :, value.shape[2] // 2, value.shape[3] // 2] = 0.1
    weights = {f'backbone.{k}': v for k, v in backbone.state_dict().items()}
    torch.save(dict(state_dict=weights), tmp_path / 'weights.pth')
    return tmp_path


def test_contrastive_crops_are_less_often_empty(project):
    printed, error = run_verb(
        'draw',
        'crops',
        project / 'config.py',
        project / 'weights.pth',
        f'--out={project / "crops.png"}',
        f'--coco={project / "annotations/instances_val2017.json"}',
        '--num=3',
        '--num-workers=0',
    )
    assert error is None
    assert cv2.imread(str(project / 'crops.png')) is not None
    random, contrastive = map(
        float,
        re.search(r'local .* random +(\S+) %, contrastive +(\S+) %', printed).groups(),
    )
    assert contrastive < 0.2 * random


@pytest.mark.parametrize('folder', [True, False])
def test_images_come_from_a_folder_or_from_the_config(project, folder):
    arguments = [f'--images={project / "val2017"}'] if folder else []
    out = project / 'out.png'
    printed, error = run_verb(
        'draw',
        'crops',
        project / 'config.py',
        project / 'weights.pth',
        f'--out={out}',
        *arguments,
    )
    assert error is None and f'Wrote {out}' in printed
    assert out.exists()


def test_what_is_wrong_is_said_in_one_sentence(project):
    command = 'draw', 'crops', project / 'config.py', project / 'weights.pth'
    _, error = run_verb(*command, '--images=nowhere')
    assert error == "mmbam draw crops: There is no folder 'nowhere'."
    _, error = run_verb(*command, f'--coco={project / "nothing.json"}')
    assert error.startswith('mmbam draw crops: There is no folder')
    text = CONFIG.format(
        root=str(project / 'val2017'), crop="dict(type='Resize', scale=8)"
    )
    (project / 'config.py').write_text(text)
    _, error = run_verb(*command)
    assert 'No transform of CustomDataset.pipeline uses boxes' in error
