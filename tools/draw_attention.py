"""Draw where a network looks in images: mean of the heads and every head (App. E).

A network without [cls] attention, as a ResNet, shows its heat map instead.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mmbam.cli.common import run_command
from mmbam.cli.network import add_network_arguments, load_network
from mmbam.datasets.finding import find_images
from mmbam.datasets.images import read_image
from mmbam.visualization.attention import Gaze, draw_attention, look

IN_ONE_PICTURE = 8


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add_network_arguments(parser)
    parser.add_argument('images', help='an image, or a folder of images')
    parser.add_argument(
        '--out',
        type=Path,
        default='attention',
        help='NAME.png for one picture of all images, or a folder for one picture per '
        'image (default: attention)',
    )
    parser.add_argument(
        '--size',
        type=int,
        default=512,
        help='shorter side of the image, in pixels (default: 512)',
    )
    parser.add_argument(
        '--num',
        type=int,
        help='number of images to draw (default: all in a folder, '
        f'{IN_ONE_PICTURE} in one picture)',
    )
    args = parser.parse_args()
    if args.num is not None and args.num < 1:
        parser.error(f'--num must be at least 1, got {args.num}')
    return args


def title_of(gaze: Gaze, checkpoint: str) -> str:
    what = 'Heat map' if gaze.heads is None else 'Attention from [cls] to the patches'
    where = 'feature maps' if gaze.heads is None else 'block'
    return f'{what}, last {where} of {Path(checkpoint).name}'


def main() -> None:
    args = parse_args()
    files = find_images(args.images)
    _, backbone, preprocessor = load_network(args)

    def look_at(file: Path) -> Gaze:
        return look(backbone, preprocessor, read_image(file), args.size, file.name)

    if args.out.suffix.lower() == '.png':
        gazes = [look_at(file) for file in files[: args.num or IN_ONE_PICTURE]]
        args.out.parent.mkdir(parents=True, exist_ok=True)
        draw_attention(gazes, args.out, title_of(gazes[0], args.checkpoint))
        print(f'Wrote {args.out}: {len(gazes)} of {len(files)} images')
        return
    root = Path(args.images) if Path(args.images).is_dir() else files[0].parent
    for file in files[: args.num]:
        # The folders and the suffix keep images of the same name apart.
        out = args.out / file.relative_to(root).with_name(f'{file.name}.png')
        out.parent.mkdir(parents=True, exist_ok=True)
        gaze = look_at(file)
        draw_attention([gaze], out, title_of(gaze, args.checkpoint))
        print(f'Wrote {out}')


if __name__ == '__main__':
    run_command(main)
