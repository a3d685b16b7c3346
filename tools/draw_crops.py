"""Draw heat maps, boxes, and what random and contrastive crops show of images.

With the annotations of a COCO data set (``--coco``), also print the share of crops that
contain no pixel of an object.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from mmbam.cli.common import run_command
from mmbam.cli.network import add_network_arguments, load_network
from mmbam.engine.localize import localize
from mmbam.evaluation.empty_crops import compare_crops, images_to_crop
from mmbam.models import boxes_from_heat_maps, heat_map
from mmbam.utils.errors import InputError
from mmbam.utils.files import require_writable
from mmbam.utils.model import frozen
from mmbam.visualization.bands import default_bands
from mmbam.visualization.crops import GLOBAL, LOCAL, draw_crops
from mmbam.visualization.figures import to_picture


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add_network_arguments(parser)
    parser.add_argument('--out', default='crops.png', help='picture to write')
    parser.add_argument(
        '--images', metavar='DIR', help="folder of images; None: the config's data"
    )
    parser.add_argument('--coco', metavar='JSON', help='instances_*.json of the images')
    parser.add_argument('--num', type=int, default=6, help='images in the picture')
    parser.add_argument(
        '--size',
        type=int,
        help='side of what the network sees, in pixels; None: that of LocalizeHook',
    )
    parser.add_argument(
        '--threshold',
        type=float,
        default=0.1,
        help='heat above which a pixel belongs to the box',
    )
    parser.add_argument(
        '--num-workers', type=int, default=2, help='number of worker processes'
    )
    parser.add_argument(
        '--bands',
        type=int,
        nargs=3,
        help='bands to show as red, green and blue, from 0; None: the first three',
    )
    args = parser.parse_args()
    if args.num < 1:
        parser.error(f'--num must be at least 1, got {args.num}')
    if args.size is not None and args.size < 1:
        parser.error(f'--size must be at least 1, got {args.size}')
    if not 0 <= args.threshold < 1:
        parser.error(f'--threshold must be in [0, 1), got {args.threshold}')
    return args


def main() -> None:
    args = parse_args()
    require_writable(args.out, args.config, args.checkpoint)
    cfg, backbone, preprocessor = load_network(args)
    images = images_to_crop(cfg, args.images, args.coco, args.size)
    # Spread over the data set, since neighbours are often similar.
    number = min(args.num, len(images))
    shown = np.linspace(0, len(images) - 1, number).astype(int).tolist()
    seen, complaints = zip(*(images[i] for i in shown))
    if any(complaints):
        raise InputError(f'An image cannot be read: {max(complaints)}.')
    with frozen(backbone):
        data = preprocessor(dict(inputs=torch.stack(seen), data_samples=None))
        heat = heat_map(backbone, data['inputs']).cpu()
    boxes = boxes_from_heat_maps(heat, args.threshold, images.size)
    bands = args.bands or default_bands(cfg)
    pictures = [to_picture(images.read(i), bands) for i in shown]
    draw_crops(pictures, heat, boxes, args.out)
    print(f'Wrote {args.out}')
    if args.coco is None:
        return
    boxes, _, _ = localize(
        backbone,
        preprocessor,
        images,
        batch_size=32,
        num_workers=args.num_workers,
        threshold=args.threshold,
    )
    count, shares = compare_crops(images, boxes, args.coco, [GLOBAL, LOCAL])
    print(f'Crops without a pixel of an object, {count} images:')
    for name, area, (random, contrastive) in zip(
        ('global', 'local'), (GLOBAL, LOCAL), shares
    ):
        print(
            f'  {name:6} ({area[0]:.2f} to {area[1]:.2f} of the area): random '
            f'{100 * random:5.1f} %, contrastive {100 * contrastive:5.1f} %'
        )


if __name__ == '__main__':
    run_command(main)
