"""Draw heat maps, boxes, and what random and contrastive crops show of images.

With the annotations of a COCO data set (``--coco``), also print the share of crops that
contain no pixel of an object.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config, DictAction

from mmbam.checkpoints.selection import SOURCES
from mmbam.cli.common import run_command
from mmbam.datasets import PlainImages
from mmbam.datasets.leaves import leaf_datasets
from mmbam.engine.localize import localize
from mmbam.evaluation.crops import read_coco_masks, share_of_empty_crops
from mmbam.evaluation.frozen import build_frozen
from mmbam.evaluation.loaders import build_dataset
from mmbam.models import boxes_from_heat_maps, heat_map
from mmbam.utils.model import frozen
from mmbam.visualization.crops import GLOBAL, LOCAL, draw_crops


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='config whose model.backbone looks')
    parser.add_argument('checkpoint', help="of this project, the authors' or timm")
    parser.add_argument('--out', default='crops.png', help='picture to write')
    parser.add_argument('--images', metavar='DIR', help="default: the config's data")
    parser.add_argument('--coco', metavar='JSON', help='instances_*.json of the images')
    parser.add_argument('--num', type=int, default=6, help='images in the picture')
    parser.add_argument('--size', type=int, help='of what the network sees, in pixels')
    parser.add_argument('--threshold', type=float, default=0.1, help='of the heat')
    parser.add_argument('--source', choices=SOURCES, default='auto', help='network')
    parser.add_argument('--num-workers', type=int, default=2)
    parser.add_argument('--cfg-options', nargs='+', action=DictAction, default={})
    args = parser.parse_args()
    if args.num < 1:
        parser.error(f'--num must be at least 1, got {args.num}')
    return args


def find_images(cfg: Config, args: argparse.Namespace) -> PlainImages:
    """The images of the folder, of the annotations, or of the config."""
    size = args.size
    if size is None:
        hooks = [h for h in cfg.get('custom_hooks', []) if 'LocalizeHook' in h.type]
        size = hooks[0].get('image_size', 224) if hooks else 224
    folder = args.images
    if folder is None and args.coco is not None:
        # annotations/instances_val2017.json speaks of val2017/
        path = Path(args.coco)
        folder = path.parent.parent / path.stem.replace('instances_', '')
    if folder is None:
        if cfg.get('train_dataloader') is None:
            raise ValueError(f'{cfg.filename!r} has no training set: give --images.')
        dataset = build_dataset(cfg.train_dataloader.dataset)
        return PlainImages(leaf_datasets(dataset), size)
    if not Path(folder).is_dir():
        raise FileNotFoundError(f'There is no folder {str(folder)!r}.')
    dataset = dict(
        type='mmpretrain.CustomDataset',
        data_root=str(folder),
        with_label=False,
        pipeline=[
            dict(type='mmbam.LoadImage'),
            dict(type='mmbam.ContrastiveCrop', scale=size),
        ],
    )
    return PlainImages([build_dataset(dataset)], size)


def print_shares(
    args: argparse.Namespace, images: PlainImages, backbone, preprocessor
) -> None:
    """Share of crops without an object, of both kinds of crops and of views."""
    boxes, _, _ = localize(
        backbone,
        preprocessor,
        images,
        batch_size=32,
        num_workers=args.num_workers,
        threshold=args.threshold,
    )
    numbers = {Path(images.name(i)).name: i for i in range(len(images))}
    masks = {
        numbers[name]: mask
        for name, mask in read_coco_masks(args.coco)
        if name in numbers
    }
    if not masks:
        raise ValueError(f'{args.coco!r} annotates none of the {len(images)} images.')
    # An image that could not be read has no box.
    chosen = [tuple(b.tolist()) if b.isfinite().all() else None
              for b in boxes[list(masks)]]  # fmt: skip
    print(f'Crops without a pixel of an object, {len(masks)} images:')
    for name, area in (('global', GLOBAL), ('local', LOCAL)):
        random = share_of_empty_crops(masks.values(), [None] * len(masks), area)
        contrastive = share_of_empty_crops(masks.values(), chosen, area)
        print(
            f'  {name:6} ({area[0]:.2f} to {area[1]:.2f} of the area): random '
            f'{100 * random:5.1f} %, contrastive {100 * contrastive:5.1f} %'
        )


def main() -> None:
    args = parse_args()
    cfg = Config.fromfile(args.config)
    cfg.merge_from_dict(args.cfg_options)
    backbone, preprocessor = build_frozen(cfg, args.checkpoint, args.source)
    images = find_images(cfg, args)
    # Spread over the data set, whose neighbours are often alike.
    number = min(args.num, len(images))
    shown = np.linspace(0, len(images) - 1, number).astype(int).tolist()
    seen, complaints = zip(*(images[i] for i in shown))
    if any(complaints):
        raise ValueError(f'An image cannot be read: {max(complaints)}.')
    batch = torch.stack(seen)
    with frozen(backbone):
        data = preprocessor(dict(inputs=batch, data_samples=None))
        heat = heat_map(backbone, data['inputs']).cpu()
    draw_crops(
        [images.read(i)[..., ::-1] for i in shown],
        heat,
        boxes_from_heat_maps(heat, args.threshold, images.size),
        args.out,
    )
    print(f'Wrote {args.out}')
    if args.coco is not None:
        print_shares(args, images, backbone, preprocessor)


if __name__ == '__main__':
    run_command(main)
