"""Draw heat maps, boxes, and what random and contrastive crops show of images.

With the annotations of a COCO data set (``--coco``), also print the share of crops that
contain no pixel of an object.
"""

from __future__ import annotations

import argparse

from mmbam.utils.errors import InputError

from .arguments import add_bands_argument, add_network_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network_arguments(parser)
    parser.add_argument('--out', default='crops.png', help='picture to write')
    parser.add_argument(
        '--images', metavar='DIR', help="folder of images; without it, the config's"
    )
    parser.add_argument('--coco', metavar='JSON', help='instances_*.json of the images')
    parser.add_argument('--num', type=int, default=6, help='images in the picture')
    parser.add_argument(
        '--size',
        type=int,
        help='side of what the network sees, in pixels; without it, as in LocalizeHook',
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
    add_bands_argument(parser)


def run(args: argparse.Namespace) -> str:
    import numpy as np
    import torch

    from mmbam.engine.localize import localize
    from mmbam.evaluation.empty_crops import compare_crops, images_to_crop
    from mmbam.models import boxes_from_heat_maps, heat_map
    from mmbam.utils.files import require_writable
    from mmbam.utils.model import frozen
    from mmbam.visualization.bands import default_bands
    from mmbam.visualization.crops import GLOBAL, LOCAL, draw_crops, of_whole_images
    from mmbam.visualization.figures import to_picture

    from .common import load_network

    for name in ('num', 'size'):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise InputError(f'--{name} must be at least 1, but got {value}.')
    if not 0 <= args.threshold < 1:
        raise InputError(f'--threshold must be in [0, 1), but got {args.threshold}.')
    require_writable(args.out, args.config, args.checkpoint)
    cfg, backbone, preprocessor = load_network(args)
    images = images_to_crop(cfg, args.images, args.coco, args.size)
    # Spread over the data set, since neighbors are often similar.
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
    print(f'Wrote {args.out}. {of_whole_images(boxes)}')
    if args.coco is None:
        return args.out
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
    return args.out
