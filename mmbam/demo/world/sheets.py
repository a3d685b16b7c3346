"""Contact sheets: pictures of what the made world contains."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mmbam.datasets.coco import decode_mask
from mmbam.datasets.images import read_image
from mmbam.evaluation.video.davis import read_davis
from mmbam.visualization.figures import hide_ticks, overlay, save_figure
from mmbam.visualization.video_strips import draw_strips


def draw_patches(imagenet_root: str | Path, path: str | Path, columns: int = 8) -> None:
    """Draw patches of every class: training on the left, test on the right.

    Args:
        imagenet_root (str | Path): Root of the ImageNet layout.
        path (str | Path): PNG to write.
        columns (int): Largest number of patches per class in each half. Defaults to 8.
    """
    root = Path(imagenet_root)
    names = sorted(folder.name for folder in (root / 'train').iterdir())
    figure = Figure((1.4 * columns, 0.62 * len(names) + 0.6), layout='constrained')
    for split, axes in zip(('train', 'val'), figure.subplots(1, 2)):
        of_class = [sorted((root / split / name).iterdir()) for name in names]
        count = min(columns, *map(len, of_class))  # Rows must be of one length.
        rows = []
        for files in of_class:
            images = np.stack([read_image(file) for file in files[:count]])
            framed = np.pad(
                images, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=255
            )
            rows.append(np.hstack(list(framed)))
        axes.imshow(np.vstack(rows))
        hide_ticks(axes, f'{split}: {count} patches of each class')
        height = len(rows[0])
        axes.set_yticks([height * (k + 0.5) for k in range(len(names))], names)
        axes.tick_params(axis='y', length=0)
    save_figure(figure, path)


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
    colors = np.resize(colormaps['tab10'].colors, (256, 3))  # repeats
    figure = Figure((2.2 * len(images), 4.8), layout='constrained')
    grid = figure.subplots(2, len(images), squeeze=False)
    for (above, below), image in zip(grid.T, images):
        pixels = read_image(root / 'val2017' / image['file_name'])
        above.imshow(pixels)
        ids = np.zeros(pixels.shape[:2], int)
        instances = [a for a in content['annotations'] if a['image_id'] == image['id']]
        for k, instance in enumerate(instances, 1):
            mask = decode_mask(instance['segmentation'], *ids.shape)
            ids[mask > 0] = k
            x, y, width, height = instance['bbox']
            box = Rectangle((x - 0.5, y - 0.5), width, height, fill=False)
            box.set_edgecolor(colors[k])
            below.add_patch(box)
            below.text(x, y - 2, names[instance['category_id']], fontsize=7, c='w')
        below.imshow(overlay(pixels, ids, 255 * colors, 0.5))
        hide_ticks(above)
        hide_ticks(below)
    figure.suptitle('Scenes, and their boxes and instance masks')
    save_figure(figure, path)


def draw_videos(
    davis_root: str | Path, path: str | Path, videos: int = 3, columns: int = 6
) -> None:
    """Draw frames of the validation videos of the DAVIS layout with their masks.

    Args:
        davis_root (str | Path): Root of the DAVIS layout.
        path (str | Path): PNG to write.
        videos (int): Number of videos. Defaults to 3.
        columns (int): Number of frames per video. Defaults to 6.
    """
    draw_strips(
        read_davis(davis_root)[:videos],
        Path(davis_root) / 'Annotations' / '480p',
        path,
        'Videos: an object keeps its color',
        columns,
    )
