"""Annotations in COCO's format: masks of objects, and the first images of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pycocotools import mask as mask_utils

from mmbam.utils.errors import InputError


def encode_mask(mask: np.ndarray) -> dict:
    """Encode a mask (h, w) as COCO's compressed run lengths, ready for JSON."""
    encoded = mask_utils.encode(np.asfortranarray(mask != 0, np.uint8))
    return {'size': encoded['size'], 'counts': encoded['counts'].decode()}


def decode_mask(segmentation: list | dict, height: int, width: int) -> np.ndarray:
    """Decode polygons or run lengths: uint8 (height, width) that is 1 on the object."""
    if not segmentation:  # an annotation that only has a box
        return np.zeros((height, width), np.uint8)
    encoded = segmentation
    if isinstance(segmentation, list):
        encoded = mask_utils.merge(mask_utils.frPyObjects(segmentation, height, width))
    elif isinstance(segmentation['counts'], list):
        encoded = mask_utils.frPyObjects(segmentation, height, width)
    return mask_utils.decode(encoded)


def read_object_masks(ann_file: str | Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each image with objects: its file name, and a map (h, w), 1 on them."""
    content = _read(ann_file)
    masks = {
        image['id']: np.zeros((image['height'], image['width']), np.uint8)
        for image in content['images']
    }
    for annotation in content['annotations']:
        mask = masks[annotation['image_id']]
        mask |= decode_mask(annotation['segmentation'], *mask.shape)
    for image in content['images']:
        if masks[image['id']].any():
            yield image['file_name'], masks[image['id']]


def first_images(ann_file: str | Path, images: int) -> dict:
    """Reduce annotations to the first images that have objects.

    Images that only show crowds are skipped, as mmdet skips them in training.
    """
    if images < 1:
        raise InputError(f'images must be at least 1, got {images}.')
    content = _read(ann_file)
    found = {a['image_id'] for a in content['annotations'] if not a['iscrowd']}
    kept = [image for image in content['images'] if image['id'] in found]
    if len(kept) < images:
        raise InputError(
            f'Only {len(kept)} images have objects, not {images}: {ann_file}'
        )
    kept = kept[:images]
    ids = {image['id'] for image in kept}
    annotations = [a for a in content['annotations'] if a['image_id'] in ids]
    return {**content, 'images': kept, 'annotations': annotations}


def _read(ann_file: str | Path) -> dict:
    try:
        content = json.loads(Path(ann_file).read_text())
    except FileNotFoundError:
        raise InputError(f'File not found: {ann_file}') from None
    except ValueError:  # of the encoding or of JSON
        content = None
    if not isinstance(content, dict) or not {'images', 'annotations'} <= set(content):
        raise InputError(f'Not annotations of COCO: {ann_file}')
    return content
