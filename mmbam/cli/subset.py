"""Write the annotations of the first images of a COCO file that have objects."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('annotations', type=Path, help='an instances_*.json of COCO')
    parser.add_argument('out', type=Path, help='the file to write')
    parser.add_argument('--images', type=int, default=16, help='number of images')


def run(args: argparse.Namespace) -> Path:
    from mmbam.datasets.coco import first_images
    from mmbam.utils.files import require_writable, write_text

    require_writable(args.out, args.annotations)
    content = first_images(args.annotations, args.images)
    write_text(args.out, json.dumps(content))
    images, objects = len(content['images']), len(content['annotations'])
    print(f'{images} images, {objects} objects: {args.out}')
    return args.out
