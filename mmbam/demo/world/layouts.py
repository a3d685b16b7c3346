"""Write patches, scenes and videos in the folder layouts of public data sets.

Each function writes one split, ``'train'`` or ``'test'``, below the root of its layout.
``names`` are all classes, in the order of their labels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from pycocotools import mask as mask_utils

from mmbam.datasets.coco import encode_mask
from mmbam.evaluation.video.davis import write_labels

from .scenes import Scene

COCO_SPLITS = {'train': 'train2017', 'test': 'val2017'}
ADE_SPLITS = {'train': 'training', 'test': 'validation'}
SHORT_SPLITS = {'train': 'train', 'test': 'val'}
# Ids and names of COCO's 80 categories, in the order of their labels.
_NAMES = (
    'person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,'
    'fire hydrant,stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,'
    'elephant,bear,zebra,giraffe,backpack,umbrella,handbag,tie,suitcase,frisbee,'
    'skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,'
    'surfboard,tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,banana,'
    'apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,'
    'potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,'
    'cell phone,microwave,oven,toaster,sink,refrigerator,book,clock,vase,scissors,'
    'teddy bear,hair drier,toothbrush'
).split(',')
# COCO's ids run to 90; these were dropped before the release.
_DROPPED = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
_IDS = [i for i in range(1, 91) if i not in _DROPPED]

COCO_CATEGORIES: list[tuple[int, str]] = list(zip(_IDS, _NAMES))


def write_imagenet(
    root: Path, split: str, patches: Iterable[tuple[str, np.ndarray]], names: list[str]
) -> None:
    """Write an ImageNet folder from pairs of class name and image.

    ``meta/*.txt`` lists every image with its label; with it mmpretrain's ``ImageNet``
    accepts fewer than 1000 classes.
    """
    folder = root / SHORT_SPLITS[split]
    for name in names:
        (folder / name).mkdir(parents=True)
    lines = []
    for index, (name, image) in enumerate(patches):
        file = f'{name}/{name}_{index:05d}.png'
        _write(folder / file, image)
        lines.append(f'{file} {names.index(name)}\n')
    (root / 'meta').mkdir(exist_ok=True)
    (root / 'meta' / f'{SHORT_SPLITS[split]}.txt').write_text(''.join(lines))


def write_coco(
    root: Path, split: str, scenes: Iterable[Scene], names: list[str]
) -> None:
    """Write COCO's images and ``annotations/instances_*.json``.

    Categories have COCO's names and ids, because data sets and evaluators look
    classes up by name: photograph k of the world becomes the k-th category, and the
    category's key ``photograph`` names it. Masks are run lengths, which stay exact
    where one object hides part of another.
    """
    folder = root / COCO_SPLITS[split]
    folder.mkdir(parents=True)
    images, annotations = [], []
    # Ids of training and test images differ, as in COCO.
    first_id = 1 if split == 'train' else 500_001
    for image_id, scene in enumerate(scenes, first_id):
        height, width = scene.ids.shape
        file = f'{image_id:012d}.jpg'
        _write(folder / file, scene.image)
        images.append(dict(id=image_id, file_name=file, height=height, width=width))
        for k, label in enumerate(scene.labels[1:], 1):
            rle = encode_mask(scene.ids == k)
            annotations.append(
                dict(
                    id=image_id * 100 + k,
                    image_id=image_id,
                    category_id=COCO_CATEGORIES[label][0],
                    bbox=mask_utils.toBbox(rle).tolist(),
                    area=int(mask_utils.area(rle)),
                    segmentation=rle,
                    iscrowd=0,
                )
            )
    categories = [
        dict(id=number, name=name, supercategory=name, photograph=photograph)
        for (number, name), photograph in zip_longest(COCO_CATEGORIES, names)
    ]
    content = dict(
        info=dict(description='Shapes cut out of photographs of scikit-image'),
        licenses=[],
        images=images,
        annotations=annotations,
        categories=categories,
    )
    path = root / 'annotations' / f'instances_{COCO_SPLITS[split]}.json'
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def write_ade20k(root: Path, split: str, scenes: Iterable[Scene]) -> None:
    """Write ADE20K's images and semantic maps.

    Maps hold label + 1, since 0 means "not labeled" in ADE20K. The background is
    labeled too: it comes from a photograph like the objects.
    """
    images = root / 'images' / ADE_SPLITS[split]
    maps = root / 'annotations' / ADE_SPLITS[split]
    images.mkdir(parents=True)
    maps.mkdir(parents=True)
    for index, scene in enumerate(scenes, 1):
        name = f'ADE_{SHORT_SPLITS[split]}_{index:08d}'
        _write(images / f'{name}.jpg', scene.image)
        semantic = np.array(scene.labels, np.uint8)[scene.ids] + 1
        Image.fromarray(semantic).save(maps / f'{name}.png')


def write_davis(root: Path, split: str, videos: Iterable[list[Scene]]) -> None:
    """Write DAVIS-2017: frames, palette masks and the list of videos."""
    short = SHORT_SPLITS[split]
    sequences = []
    for index, video in enumerate(videos):
        sequences.append(f'{short}-{index:02d}')
        frames = root / 'JPEGImages' / '480p' / sequences[-1]
        masks = root / 'Annotations' / '480p' / sequences[-1]
        frames.mkdir(parents=True)
        for step, scene in enumerate(video):
            _write(frames / f'{step:05d}.jpg', scene.image)
            write_labels(masks / f'{step:05d}.png', scene.ids)
    path = root / 'ImageSets' / '2017' / f'{short}.txt'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(''.join(f'{name}\n' for name in sequences))


def _write(path: Path, gray: np.ndarray) -> None:
    # Three equal channels, because readers of the public data sets expect color.
    parameters = [cv2.IMWRITE_JPEG_QUALITY, 95] if path.suffix == '.jpg' else []
    if not cv2.imwrite(str(path), cv2.cvtColor(gray, cv2.COLOR_GRAY2BGR), parameters):
        raise OSError(f'{path} could not be written.')
