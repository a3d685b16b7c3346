"""Write the annotations of the first images of a COCO file that have objects."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mmbam.cli.common import run_command
from mmbam.datasets.coco import first_images
from mmbam.utils.files import require_writable, write_text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument('annotations', type=Path, help='an instances_*.json of COCO')
    parser.add_argument('out', type=Path, help='the file to write')
    parser.add_argument('--images', type=int, default=16, help='number of images')
    args = parser.parse_args()
    require_writable(args.out, args.annotations)
    content = first_images(args.annotations, args.images)
    write_text(args.out, json.dumps(content))
    images, objects = len(content['images']), len(content['annotations'])
    print(f'{images} images, {objects} objects: {args.out}')


if __name__ == '__main__':
    run_command(main)
