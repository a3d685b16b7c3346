"""DAVIS layouts of made videos, and tiny networks to try on them."""

import shutil
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmpretrain.registry import MODELS

from mmbam.demo.world.layouts import write_davis
from mmbam.demo.world.photographs import class_names
from mmbam.demo.world.scenes import draw_video
from mmbam.evaluation.video import write_labels

CONFIG = """
default_scope = 'mmpretrain'
data_preprocessor = dict(mean=[120] * 3, std=[60] * 3, to_rgb=True)
model = dict(type='ImageClassifier', backbone={backbone})
"""
VIT = dict(
    type='mmpretrain.VisionTransformer',
    arch=dict(embed_dims=24, num_layers=2, num_heads=4, feedforward_channels=48),
    img_size=16,
    patch_size=8,
)
RESNET = dict(
    type='mmpretrain.ResNet', depth=18, stem_channels=8, base_channels=8, num_stages=2,
    strides=(1, 2), dilations=(1, 1), out_indices=(1,),
)  # fmt: skip


def make_davis(root, lengths=(6, 5, 4), size=64):
    """Write the list ``val`` with one video of each length."""
    names = class_names(4)
    videos = [
        draw_video(names, 'test', size, frames, np.random.default_rng(seed))
        for seed, frames in enumerate(lengths)
    ]
    write_davis(Path(root), 'test', videos)
    return Path(root)


def make_odd(root, frame_size=(67, 101), frames=4):
    """One video of a bright square on a dark ground, of which two objects come late."""
    rng = np.random.default_rng(0)
    shutil.rmtree(root, ignore_errors=True)
    images, masks = (root / d / '480p/odd' for d in ('JPEGImages', 'Annotations'))
    images.mkdir(parents=True)
    for t in range(frames):
        labels = np.zeros(frame_size, np.uint8)
        if t < 2:  # then it is gone
            labels[10:40, 20 + 4 * t : 60 + 4 * t] = 1
        if t > 1:
            labels[50:60, 70:90] = 2
        image = rng.integers(0, 30, (*frame_size, 3))
        image[labels > 0] += 180
        cv2.imwrite(str(images / f'{t:05}.jpg'), image.astype(np.uint8))
        write_labels(masks / f'{t:05}.png', labels)
    listed = root / 'ImageSets/2017/val.txt'
    listed.parent.mkdir(parents=True)
    listed.write_text('odd\n')
    return root


def make_network(root, backbone=VIT):
    """Write ``config.py`` and ``weights.pth`` with a teacher and another student."""
    path, weights = Path(root) / 'config.py', {}
    path.write_text(CONFIG.format(backbone=backbone))
    for seed, role in enumerate(('', 'teacher.')):
        torch.manual_seed(seed)
        network = MODELS.build(Config.fromfile(path).model.backbone)
        network.init_weights()
        state = network.state_dict().items()
        weights.update({f'{role}backbone.{n}': v for n, v in state})
    torch.save(dict(state_dict=weights), Path(root) / 'weights.pth')
    return path, Path(root) / 'weights.pth'
