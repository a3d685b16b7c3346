"""Pre-train a tiny network with BAM, then do every downstream task with it.

Detection, semantic segmentation and video segmentation on made scenes, k-NN and linear
probe on made patches: from one checkpoint, and from the random weights that training
began with, side by side on one page. Continues where the demo or an interrupted run of
this command ended.
"""

from __future__ import annotations

import argparse
import warnings

from mmbam.demo.chain import ChainSettings, run_chain

STOPPED = 'Stopped. Run the command again to continue.'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--backbone',
        choices=('resnet', 'vit'),
        default='resnet',
        help='network to pre-train',
    )
    parser.add_argument('--out', default='work_dirs/demo', help='folder for results')
    parser.add_argument('--seed', type=int, default=0, help='seed of world and run')
    for option, what in (
        ('--epochs', 'epochs of pre-training'),
        ('--detection-epochs', 'epochs of the detector'),
        ('--segmentation-iters', 'iterations of the segmentor'),
    ):
        parser.add_argument(
            option, type=int, help=f"number of {what}; without it, the config's"
        )
    for what, counts in (('patches', (4000, 800)), ('scenes', (200, 50))):
        parser.add_argument(
            f'--{what}',
            type=int,
            nargs=2,
            default=counts,
            metavar=('TRAIN', 'TEST'),
            help=f'number of {what} in the world',
        )


def run(args: argparse.Namespace) -> list:
    with warnings.catch_warnings():
        # Of torch and mmdet; a reader here cannot do anything about them.
        warnings.filterwarnings(
            'ignore', category=UserWarning, module='torch|mmdet|mmseg'
        )
        return run_chain(ChainSettings(**vars(args)))
