"""Pack a folder of images into tar shards (WebDataset's form) that are read fast.

The same command goes on after an interruption.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

from mmbam.utils.errors import InputError

_UNITS = {'': 1, 'K': 2**10, 'M': 2**20, 'G': 2**30, 'T': 2**40}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('images', nargs='?', help='folder of images; not for --verify')
    parser.add_argument('out', help='folder for the shards')
    parser.add_argument(
        '--short-side',
        type=int,
        default=512,
        help='shorter side of large images afterwards, in pixels',
    )
    parser.add_argument('--quality', type=int, default=92, help='quality of new JPEGs')
    parser.add_argument(
        '--shard-size',
        type=_bytes,
        default='1G',
        metavar='SIZE',
        help='largest size of a shard, such as 500M',
    )
    parser.add_argument(
        '--workers', type=int, help='number of processes (default: that of CPUs)'
    )
    parser.add_argument(
        '--verify',
        action='store_true',
        help='check the shards by their checksums, after packing or alone',
    )


def run(args: argparse.Namespace) -> dict[str, Any] | None:
    from mmbam.datasets.shards.pack import UNREADABLE, pack_images
    from mmbam.datasets.shards.writer import verify_pack
    from mmbam.utils.files import printable

    done = None
    if args.images is not None:
        done = pack_images(
            args.images,
            args.out,
            args.short_side,
            args.quality,
            args.shard_size,
            args.workers,
        )
        shards = '1 shard' if done['shards'] == 1 else f'{done["shards"]:,} shards'
        print(f'{done["packed"]:,} images in {shards} in {printable(args.out)}')
        if done['unreadable']:
            print(
                f'{done["unreadable"]:,} that cannot be read were left out, see '
                f'{printable(args.out)}/{UNREADABLE}'
            )
    elif not args.verify:
        raise InputError('mmbam pack needs IMAGES and OUT, or --verify OUT.')
    if args.verify:
        print(f'{verify_pack(args.out):,} images are as they were packed')
    return done


def _bytes(text: str) -> int:
    match = re.fullmatch(r'(\d+)([KMGT]?)B?', text.upper())
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f'must be a size such as 500M, got {text!r}')
    return int(match[1]) * _UNITS[match[2]]
