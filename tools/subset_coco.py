"""Write the annotations of the first images of a COCO file that have objects."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('annotations', type=Path, help='an instances_*.json')
    parser.add_argument('out', type=Path, help='the file to write')
    parser.add_argument('--images', type=int, default=16, help='how many [16]')
    args = parser.parse_args()
    if args.images < 1:
        parser.exit(2, f'{parser.prog}: --images must be at least 1.\n')
    try:
        content = json.loads(args.annotations.read_text())
        # Crowds alone are nothing to learn from: mmdet leaves such images out.
        found = {a['image_id'] for a in content['annotations'] if not a['iscrowd']}
        images = [image for image in content['images'] if image['id'] in found]
    except FileNotFoundError:
        parser.exit(2, f'{parser.prog}: File not found: {args.annotations}\n')
    except (json.JSONDecodeError, KeyError, TypeError):
        parser.exit(2, f'{parser.prog}: Not annotations of COCO: {args.annotations}\n')
    if len(images) < args.images:
        parser.exit(
            2, f'{parser.prog}: Only {len(images)} images have objects, not '
            f'{args.images}: {args.annotations}\n'
        )  # fmt: skip
    images = images[: args.images]
    kept = {image['id'] for image in images}
    annotations = [a for a in content['annotations'] if a['image_id'] in kept]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(
        json.dumps({**content, 'images': images, 'annotations': annotations})
    )
    print(f'{len(images)} images, {len(annotations)} objects: {args.out}')


if __name__ == '__main__':
    main()
