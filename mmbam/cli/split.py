"""Write a class-balanced part of a data set as a list of images and labels."""

from __future__ import annotations

import argparse
from pathlib import Path

from mmbam.utils.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('root', help='folder of class folders')
    parser.add_argument('out', type=Path, help='list to write, for use as ann_file')
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument('--fraction', type=float, help='share of each class to take')
    amount.add_argument(
        '--per-class', type=int, help='number of images of each class to take'
    )
    parser.add_argument('--rest', type=Path, help='list of all other images to write')
    parser.add_argument('--seed', type=int, default=0, help='seed of the choice')


def run(args: argparse.Namespace) -> list[Path]:
    from mmbam.datasets.splits import balanced_split, write_list
    from mmbam.evaluation.frozen import class_folders
    from mmbam.evaluation.loaders import build_dataset
    from mmbam.utils.files import require_writable

    require_writable(args.out)
    if args.rest and args.rest.resolve() == args.out.resolve():
        raise InputError(f'--rest must be another file than {str(args.out)!r}.')
    dataset = build_dataset(class_folders(args.root, pipeline=[]))
    labels = dataset.get_gt_labels()
    parts = balanced_split(labels, args.fraction, args.per_class, args.seed)
    for path, part in zip((args.out, args.rest), parts):
        if path is None:
            continue
        images = [dataset.get_data_info(i)['img_path'] for i in part]
        write_list(path, zip(images, labels[part]), args.root)
        print(f'Wrote {len(part)} of {len(labels)} images to {path}.')
    return [path for path in (args.out, args.rest) if path]
