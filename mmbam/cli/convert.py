"""Convert a backbone between this project, the authors' release and timm."""

from __future__ import annotations

import argparse

from .arguments import add_source_arguments

#: Those of mmbam.checkpoints.conversion, which takes seconds to import.
FORMATS = ('mmpretrain', 'timm', 'release')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('checkpoint', help='file to read; nothing in it is run')
    parser.add_argument('out', help='file to write')
    parser.add_argument(
        '--to', choices=FORMATS, required=True, help='library whose names to write'
    )
    add_source_arguments(parser)


def run(args: argparse.Namespace) -> str:
    from mmbam.checkpoints import convert_checkpoint

    weights = convert_checkpoint(
        args.checkpoint, args.out, args.to, args.source, args.prefix
    )
    print(f'Wrote {len(weights)} weights to {args.out}.')
    return args.out
