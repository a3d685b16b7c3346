"""Convert a backbone between this project, the authors' release and timm."""

from __future__ import annotations

import argparse

from mmbam.checkpoints import convert_checkpoint
from mmbam.checkpoints.conversion import FORMATS
from mmbam.checkpoints.selection import SOURCES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('checkpoint', help='file to read; nothing in it is run')
    parser.add_argument('out', help='file to write')
    parser.add_argument(
        '--to', choices=FORMATS, required=True, help='library whose names to write'
    )
    parser.add_argument(
        '--source', choices=SOURCES, default='auto', help='network to take'
    )


def run(args: argparse.Namespace) -> str:
    weights = convert_checkpoint(args.checkpoint, args.out, args.to, args.source)
    print(f'Wrote {len(weights)} weights to {args.out}.')
    return args.out
