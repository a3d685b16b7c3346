"""Write the embeddings of all images in a folder, with their names, into one file.

An interrupted command goes on where it stopped when it is started again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .arguments import add_image_arguments

#: What to say after Ctrl-C.
STOPPED = 'Stopped. The same command goes on where it stopped.'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_image_arguments(parser)
    parser.add_argument(
        '--out',
        required=True,
        metavar='FILE',
        help='file to write: .npz, .npy (the names go beside it) or .parquet',
    )
    parser.add_argument(
        '--tokens',
        action='store_true',
        help='write the patch tokens as well, or the last feature map of a CNN',
    )


def run(args: argparse.Namespace) -> Path:
    from mmengine.dist import is_main_process

    from mmbam.evaluation.embedding_files import require_format
    from mmbam.utils.files import require_writable

    from .images import ImagesAndNetwork

    require_format(args.out)
    require_writable(args.out, args.checkpoint, args.config)
    given = ImagesAndNetwork(args)
    out = given.embed(args.out, args.tokens)
    if is_main_process():
        print(f'Wrote the embeddings of {len(given.names):,} images to {out}.')
    return out
