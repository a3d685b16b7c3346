"""Contact sheets of the made world."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

# Figures are made without pyplot: no global state, no display needed.


def draw_patches(imagenet_root: str | Path, path: str | Path, columns: int = 8) -> None:
    """Draw patches of every class, training on the left and test on the right.

    Args:
        imagenet_root (str | Path): Root of the ImageNet layout.
        path (str | Path): PNG to write.
        columns (int): Patches of a class in each half. Defaults to 8.
    """
    root = Path(imagenet_root)
    names = sorted(folder.name for folder in (root / 'train').iterdir())
    figure = Figure(figsize=(1.4 * columns, 0.62 * len(names) + 0.6))
    halves = figure.subplots(1, 2)
    for split, axes in zip(('train', 'val'), halves):
        rows = []
        for name in names:
            files = sorted((root / split / name).iterdir())[:columns]
            rows.append(np.hstack([_frame(_read(file)) for file in files]))
        _show(axes, np.vstack(rows), f'{split}: {columns} patches of each class')
        height = len(rows[0])
        axes.set_yticks([height * (k + 0.5) for k in range(len(names))], names)
        axes.tick_params(axis='y', length=0)
    _save(figure, path)


def draw_scenes(coco_root: str | Path, path: str | Path, count: int = 6) -> None:
    """Draw validation scenes of the COCO layout, each above its boxes and masks.

    Args:
        coco_root (str | Path): Root of the COCO layout.
        path (str | Path): PNG to write.
        count (int): Number of scenes. Defaults to 6.
    """
    root = Path(coco_root)
    content = json.loads((root / 'annotations/instances_val2017.json').read_text())
    names = {c['id']: c['photograph'] for c in content['categories']}
    images = content['images'][:count]
    figure = Figure(figsize=(2.2 * len(images), 4.8))
    grid = figure.subplots(2, len(images), squeeze=False)
    for (above, below), image in zip(grid.T, images):
        pixels = _read(root / 'val2017' / image['file_name'])
        ids = np.zeros(pixels.shape[:2], np.uint8)
        _show(above, pixels, '')
        for k, instance in enumerate(_instances(content, image['id']), 1):
            ids[_decode(instance['segmentation'])] = k
            x, y, width, height = instance['bbox']
            below.add_patch(_box(x, y, width, height, k))
            below.text(x, y - 2, names[instance['category_id']], fontsize=7, c='w')
        _show(below, _colour(pixels, ids), '')
    figure.suptitle('Scenes, and their boxes and instance masks')
    _save(figure, path)


def draw_videos(
    davis_root: str | Path, path: str | Path, videos: int = 3, columns: int = 6
) -> None:
    """Draw frames of the validation videos of the DAVIS layout with their masks.

    Args:
        davis_root (str | Path): Root of the DAVIS layout.
        path (str | Path): PNG to write.
        videos (int): Number of videos. Defaults to 3.
        columns (int): Frames of each. Defaults to 6.
    """
    root = Path(davis_root)
    names = (root / 'ImageSets/2017/val.txt').read_text().split()[:videos]
    figure = Figure(figsize=(2 * columns, 2.2 * len(names) + 0.4))
    grid = figure.subplots(len(names), columns, squeeze=False)
    for row, name in zip(grid, names):
        files = sorted((root / 'JPEGImages/480p' / name).iterdir())
        for axes, step in zip(row, np.linspace(0, len(files) - 1, columns).astype(int)):
            mask = root / 'Annotations/480p' / name / f'{files[step].stem}.png'
            with Image.open(mask) as file:
                ids = np.asarray(file)
            picture = _colour(_read(files[step]), ids)
            _show(axes, picture, f'{name}, frame {step}')
    figure.suptitle('Videos: an object keeps its colour')
    _save(figure, path)


def _instances(content: dict, image_id: int) -> list[dict]:
    return [a for a in content['annotations'] if a['image_id'] == image_id]


def _decode(rle: dict) -> np.ndarray:
    values = np.arange(len(rle['counts'])) % 2 == 1
    return np.repeat(values, rle['counts']).reshape(rle['size'], order='F')


def _colours() -> np.ndarray:
    from matplotlib import colormaps

    return np.array(colormaps['tab10'].colors)


def _colour(image: np.ndarray, ids: np.ndarray) -> np.ndarray:
    tint = 255 * _colours()[(ids.astype(int) - 1) % 10]
    mixed = np.where(ids[..., None] > 0, 0.5 * image + 0.5 * tint, image)
    return mixed.astype(np.uint8)


def _box(x: int, y: int, width: int, height: int, k: int):
    from matplotlib.patches import Rectangle

    place = (x - 0.5, y - 0.5)
    return Rectangle(place, width, height, fill=False, ec=_colours()[(k - 1) % 10])


def _read(path: Path) -> np.ndarray:
    image = cv2.imread(str(path))
    if image is None:
        raise FileNotFoundError(f'{path} is not an image that can be read.')
    return image[..., ::-1]


def _frame(image: np.ndarray) -> np.ndarray:
    return np.pad(image, ((1, 1), (1, 1), (0, 0)), constant_values=255)


def _show(axes: Axes, image: np.ndarray, title: str) -> None:
    axes.imshow(image)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(title, fontsize=9)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _save(figure: Figure, path: str | Path) -> None:
    figure.set_layout_engine('tight')
    figure.savefig(path, dpi=120)
