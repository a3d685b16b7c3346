"""Draw where a network looks in images: mean of the heads and every head (App. E).

A network without [cls] attention, as a ResNet, shows its heat map instead.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mmbam.utils.errors import InputError

from .arguments import add_bands_argument, add_network_arguments

if TYPE_CHECKING:
    from mmbam.visualization.attention import Gaze

IN_ONE_PICTURE = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network_arguments(parser)
    parser.add_argument('images', help='an image, or a folder of images')
    parser.add_argument(
        '--out',
        type=Path,
        default='attention',
        help='NAME.png for one picture of all images, or a folder for one picture per '
        'image',
    )
    parser.add_argument(
        '--size',
        type=int,
        default=512,
        help='shorter side of the image, in pixels',
    )
    parser.add_argument(
        '--num',
        type=int,
        help='number of images to draw; without it, all in a folder and '
        f'{IN_ONE_PICTURE} in one picture',
    )
    add_bands_argument(parser)


def title_of(gaze: Gaze, checkpoint: str) -> str:
    what = 'Heat map' if gaze.heads is None else 'Attention from [cls] to the patches'
    where = 'feature maps' if gaze.heads is None else 'block'
    return f'{what}, last {where} of {Path(checkpoint).name}'


def run(args: argparse.Namespace) -> list[Path]:
    from mmbam.datasets.finding import find_images
    from mmbam.visualization.attention import draw_attention, look
    from mmbam.visualization.bands import image_reader

    from .common import load_network

    if args.num is not None and args.num < 1:
        raise InputError(f'--num must be at least 1, but got {args.num}.')
    files = find_images(args.images)
    cfg, backbone, preprocessor = load_network(args)
    read, bands = image_reader(cfg, args.bands)

    def look_at(file: Path) -> Gaze:
        return look(backbone, preprocessor, read(file), args.size, file.name, bands)

    if args.out.suffix.lower() == '.png':
        gazes = [look_at(file) for file in files[: args.num or IN_ONE_PICTURE]]
        args.out.parent.mkdir(parents=True, exist_ok=True)
        draw_attention(gazes, args.out, title_of(gazes[0], args.checkpoint))
        print(f'Wrote {args.out}: {len(gazes)} of {len(files)} images')
        return [args.out]
    root = Path(args.images) if Path(args.images).is_dir() else files[0].parent
    drawn = []
    for file in files[: args.num]:
        # The folders and the suffix keep images of the same name apart.
        out = args.out / file.relative_to(root).with_name(f'{file.name}.png')
        gaze = look_at(file)
        out.parent.mkdir(parents=True, exist_ok=True)
        draw_attention([gaze], out, title_of(gaze, args.checkpoint))
        print(f'Wrote {out}')
        drawn.append(out)
    return drawn
