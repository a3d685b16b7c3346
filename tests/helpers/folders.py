"""Class folders of small noisy images, a config that reads them, and its weights."""

from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmpretrain.registry import MODELS

CONFIG = """
default_scope = 'mmpretrain'
pipeline = [dict(type='LoadImageFromFile'), dict(type='PackInputs')]
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='mmpretrain.VisionTransformer',
        arch=dict(embed_dims=24, num_layers=2, num_heads=4, feedforward_channels=48),
        img_size=16,
        patch_size=8,
    ),
)
data_preprocessor = dict(mean=[120] * 3, std=[60] * 3, to_rgb=True)
train_dataloader = dict(
    batch_size=2,
    dataset=dict(
        type='CustomDataset',
        data_root='{root}/train',
        pipeline=[dict(type='LoadImageFromFile'), dict(type='RandomFlip', prob=0.5)],
    ),
)
val_dataloader = dict(
    batch_size=2,
    dataset=dict(
        type='CustomDataset',
        data_root='{root}/test',
        pipeline=[dict(type='LoadImageFromFile'), dict(type='PackInputs')],
    ),
)
"""


def make_folders(root, num_classes=3, train=8, test=5, noise=90, size=16):
    """Images of a class share a pattern; the noise makes some hard to tell."""
    rng = np.random.default_rng(0)
    patterns = rng.normal(128, 40, (num_classes, size, size, 3))
    for split, number in (('train', train), ('test', test)):
        for label, pattern in enumerate(patterns):
            folder = root / split / f'class{label}'
            folder.mkdir(parents=True)
            for i in range(number):
                image = (pattern + rng.normal(0, noise, pattern.shape)).clip(0, 255)
                cv2.imwrite(str(folder / f'{i:03}.png'), image.astype(np.uint8))


def make_config(root):
    """Write ``config.py`` and ``weights.pth`` next to the folders."""
    path = root / 'config.py'
    path.write_text(CONFIG.replace('{root}', str(root)))
    torch.manual_seed(0)
    backbone = MODELS.build(Config.fromfile(path).model.backbone)
    backbone.init_weights()
    backbone.eval()
    weights = {f'backbone.{n}': v for n, v in backbone.state_dict().items()}
    torch.save(dict(state_dict=weights), root / 'weights.pth')
    return path, root / 'weights.pth', backbone


@torch.no_grad()
def slow_features(backbone, folder):
    """One image at a time, by hand."""
    features, labels = [], []
    for path in sorted(folder.glob('*/*.png')):
        image = cv2.imread(str(path))[..., ::-1].astype(np.float32)
        image = torch.from_numpy((image - 120) / 60).permute(2, 0, 1)[None]
        features.append(backbone(image)[-1][0].numpy())
        labels.append(int(path.parent.name.removeprefix('class')))
    return np.stack(features), np.array(labels)


def write_photos(folder: Path, number: int = 20, side: int = 32) -> Path:
    """Smooth random images in two sub-folders; the first is gray."""
    rng = np.random.default_rng(0)
    for index in range(number):
        image = rng.integers(0, 255, (5, 5, 3), np.uint8)
        size = (side + 8 * (index % 2), side)
        image = cv2.resize(image, size, interpolation=cv2.INTER_CUBIC)
        place = folder / 'ab'[index % 2] / f'{index:02}.png'
        place.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(place), image if index else image[..., 0])
    (folder / 'notes.txt').write_text('no image')
    return folder
