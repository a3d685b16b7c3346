"""Mean and deviation of each band of images, as a config's data_preprocessor.

Images are read as `mmbam.LoadImage` reads them with the same channels, depth and bits.
"""

from __future__ import annotations

import argparse

from mmbam.utils.errors import InputError, input_errors


def bands(text: str) -> int | str:
    """Parse --channels."""
    return text if text == 'rgb' else int(text)


def depth(text: str) -> int | str:
    """Parse --depth."""
    return text if text == 'full' else int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('images', help='an image, or a folder of images')
    parser.add_argument(
        '--channels',
        type=bands,
        default='rgb',
        help="number of bands, or 'rgb'",
    )
    parser.add_argument(
        '--depth',
        type=depth,
        default=8,
        help="8, or 'full' for every bit of the files",
    )
    parser.add_argument('--bits', type=int, help='bits that values of uint16 use')
    parser.add_argument(
        '--number', type=int, help='number of images to draw (default: all)'
    )
    parser.add_argument('--seed', type=int, default=0, help='seed of that draw')


def run(args: argparse.Namespace) -> dict:
    from mmbam.datasets.bands import RGB
    from mmbam.datasets.finding import find_images
    from mmbam.datasets.statistics import band_statistics
    from mmbam.datasets.transforms import LoadImage

    if args.number is not None and args.number < 1:
        raise InputError(f'--number must be at least 1, got {args.number}.')
    with input_errors((ValueError,)):
        load = LoadImage(channels=args.channels, depth=args.depth, bits=args.bits)
    files = find_images(args.images)
    statistics, used = band_statistics(files, load, args.number, args.seed)
    mean, std = statistics.mean, statistics.std
    if not (std > 0).all():
        constant = [i for i, value in enumerate(std) if not value > 0]
        raise InputError(
            f'Bands {constant} have one value everywhere in {used:,} images, so they '
            'cannot be scaled to a deviation of 1: leave them out.'
        )
    rgb = args.channels == RGB
    preprocessor = dict(
        type='SelfSupDataPreprocessor' if rgb else 'mmbam.BandsPreprocessor',
        # Images are in the order blue, green, red.
        mean=[float(f'{x:.6g}') for x in (mean[::-1] if rgb else mean)],
        std=[float(f'{x:.6g}') for x in (std[::-1] if rgb else std)],
        **(dict(to_rgb=True) if rgb else {}),
    )
    print(
        f'# {used:,} of {len(files):,} images, {statistics.pixels:,} pixels\n'
        'data_preprocessor = dict('
    )
    for key, value in preprocessor.items():
        print(f'    {key}={value!r},')
    print(')')
    return preprocessor
