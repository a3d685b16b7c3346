"""Do crops show an object, or only what is around it?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from mmbam.datasets.transforms.window import Box, sample_window


def share_of_empty_crops(
    masks: Iterable[np.ndarray],
    boxes: Iterable[Box | None],
    area: Sequence[float],
    crops: int = 20,
    alpha: float = 0.6,
    aspect: Sequence[float] = (3 / 4, 4 / 3),
    seed: int = 0,
) -> float:
    """The share of crops that contain no pixel of an object.

    Args:
        masks (Iterable[np.ndarray]): For each image a map (h, w) that is not 0 where an
            object is.
        boxes (Iterable): For each image the box (h0, w0, h1, w1) in [0, 1] that
            ContrastiveCrop draws centres from, or None for random crops.
        area (Sequence[float]): Smallest and largest share of the image's area.
        crops (int): Crops of each image. Defaults to 20.
        alpha (float): Of the Beta distribution of centres. Defaults to 0.6.
        aspect (Sequence[float]): Smallest and largest width / height of a crop.
            Defaults to (3 / 4, 4 / 3).
        seed (int): Of the crops. Defaults to 0.

    Returns:
        float: Between 0 and 1.
    """
    state = np.random.get_state()
    np.random.seed(seed)  # the geometry draws from numpy's global numbers
    empty = total = 0
    try:
        for mask, box in zip(masks, boxes):
            # sums[i, j] counts the object's pixels above row i and left of column j
            sums = cv2.integral((mask != 0).astype(np.uint8))
            for _ in range(crops):
                top, left, h, w = sample_window(*mask.shape, area, aspect, box, alpha)
                inside = (
                    sums[top + h, left + w]
                    - sums[top, left + w]
                    - sums[top + h, left]
                    + sums[top, left]
                )
                empty += inside == 0
                total += 1
    finally:
        np.random.set_state(state)
    if total == 0:
        raise ValueError('There are no images to crop.')
    return float(empty / total)


def read_coco_masks(ann_file: str | Path) -> Iterator[tuple[str, np.ndarray]]:
    """Where the objects of a COCO data set are.

    Args:
        ann_file (str | Path): An ``instances_*.json``.

    Yields:
        tuple[str, np.ndarray]: File name of an image with at least one object, and a
        uint8 map (h, w) that is 1 on its objects.
    """
    content = json.loads(Path(ann_file).read_text())
    masks = {
        image['id']: np.zeros((image['height'], image['width']), np.uint8)
        for image in content['images']
    }
    for annotation in content['annotations']:
        _paint(masks[annotation['image_id']], annotation['segmentation'])
    for image in content['images']:
        if masks[image['id']].any():
            yield image['file_name'], masks[image['id']]


def _paint(mask: np.ndarray, segmentation: list | dict) -> None:
    if isinstance(segmentation, list):
        corners = [np.rint(np.reshape(p, (-1, 2))).astype(int) for p in segmentation]
        cv2.fillPoly(mask, corners, 1)
    elif isinstance(segmentation['counts'], list):
        counts = segmentation['counts']
        runs = np.repeat(np.arange(len(counts)) % 2, counts)
        mask |= runs.astype(np.uint8).reshape(mask.shape, order='F')
    else:
        from pycocotools.mask import decode  # compressed: the dense extra has it

        mask |= decode(segmentation)
