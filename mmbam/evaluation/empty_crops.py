"""The share of crops that miss all objects of an image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import cv2
import numpy as np
from mmengine.config import Config
from torch import Tensor

from mmbam.datasets import PlainImages, dataset_of
from mmbam.datasets.coco import read_object_masks
from mmbam.datasets.leaves import leaf_datasets
from mmbam.datasets.transforms.window import Box, sample_window
from mmbam.utils.errors import InputError
from mmbam.utils.random import preserved_randomness

from .loaders import build_dataset

# The paper's aspect ratios of crops, and the spread of ContrastiveCrop's centers.
ASPECT = (3 / 4, 4 / 3)
ALPHA = 0.6


def share_of_empty_crops(
    masks: Iterable[np.ndarray],
    boxes: Iterable[Box | None],
    area: Sequence[float],
    crops: int = 20,
    seed: int = 0,
) -> float:
    """Measure the share, from 0 to 1, of crops that contain no pixel of an object.

    Args:
        masks (Iterable[np.ndarray]): Map (h, w) of each image that is not 0 where an
            object is.
        boxes (Iterable): Box (h0, w0, h1, w1) in [0, 1] of each image, from which
            ContrastiveCrop draws centers, or None for random crops.
        area (Sequence[float]): Smallest and largest share of the image's area.
        crops (int): Number of crops per image. Defaults to 20.
        seed (int): Seed of the crops. Defaults to 0.
    """
    empty = []
    with preserved_randomness():
        np.random.seed(seed)  # sample_window draws from numpy's global generator.
        for mask, box in zip(masks, boxes):
            # sums[i, j] counts the object's pixels above row i and left of column j.
            sums = cv2.integral((mask != 0).astype(np.uint8))
            height, width = mask.shape
            for _ in range(crops):
                top, left, h, w = sample_window(height, width, area, ASPECT, box, ALPHA)
                corners = sums[np.ix_([top, top + h], [left, left + w])]
                empty.append(
                    corners[1, 1] - corners[0, 1] == corners[1, 0] - corners[0, 0]
                )
    if not empty:
        raise InputError('There are no images to crop.')
    return float(np.mean(empty))


def compare_crops(
    images: PlainImages,
    boxes: Tensor,
    ann_file: str | Path,
    areas: Iterable[Sequence[float]],
) -> tuple[int, list[tuple[float, float]]]:
    """Compare random and contrastive crops of the images of COCO's annotations.

    A row of ``boxes`` (n, 4) is NaN where an image cannot be read.

    Returns:
        tuple: Number of images with an object, and for each range of areas the share of
        empty crops among random and among contrastive ones.
    """
    numbers = {Path(images.name(i)).name: i for i in range(len(images))}
    masks = {
        numbers[name]: mask
        for name, mask in read_object_masks(ann_file)
        if name in numbers
    }
    if not masks:
        raise InputError(
            f'{str(ann_file)!r} annotates none of the {len(images)} images.'
        )
    chosen = [
        tuple(box.tolist()) if box.isfinite().all() else None
        for box in boxes[list(masks)]
    ]
    return len(masks), [
        (
            share_of_empty_crops(masks.values(), [None] * len(masks), area),
            share_of_empty_crops(masks.values(), chosen, area),
        )
        for area in areas
    ]


def images_to_crop(
    cfg: Config,
    folder: str | Path | None = None,
    ann_file: str | Path | None = None,
    size: int | None = None,
) -> PlainImages:
    """Find the images of a folder, of annotations, or of a config's training set.

    COCO's annotations lie in ``annotations/`` beside the folder of their images.
    Without a ``size``, the images get that of the config's LocalizeHook, or 224.
    """
    if size is None:
        hooks = [h for h in cfg.get('custom_hooks', []) if 'LocalizeHook' in h.type]
        size = hooks[0].get('image_size', 224) if hooks else 224
    if folder is None and ann_file is not None:
        # annotations/instances_val2017.json belongs to val2017/.
        path = Path(ann_file)
        folder = path.parent.parent / path.stem.replace('instances_', '')
    if folder is None:
        if cfg.get('train_dataloader') is None:
            raise InputError(f'{cfg.filename!r} has no training set: give --images.')
        dataset = build_dataset(cfg.train_dataloader.dataset)
        return PlainImages(leaf_datasets(dataset), size)
    images = dataset_of(
        folder,
        pipeline=[
            dict(type='mmbam.LoadImage'),
            dict(type='mmbam.ContrastiveCrop', scale=size),
        ],
    )
    return PlainImages([build_dataset(images)], size)
