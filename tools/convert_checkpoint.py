"""Convert a backbone between this project, the authors' release and timm."""

from __future__ import annotations

import argparse
import sys

from mmbam.checkpoints import convert_checkpoint
from mmbam.checkpoints.conversion import FORMATS
from mmbam.checkpoints.selection import SOURCES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('checkpoint', help='file to read; nothing in it is run')
    parser.add_argument('out', help='file to write')
    parser.add_argument('--to', choices=FORMATS, required=True, help='names to write')
    parser.add_argument('--source', choices=SOURCES, default='auto', help='network')
    args = parser.parse_args()
    try:
        weights = convert_checkpoint(args.checkpoint, args.out, args.to, args.source)
    except (ValueError, OSError) as error:
        sys.exit(f'convert_checkpoint: {error}')
    print(f'Wrote {len(weights)} weights to {args.out}.')


if __name__ == '__main__':
    main()
