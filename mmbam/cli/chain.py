"""Pre-train a tiny network with BAM, then do every downstream task with it.

Detection, semantic segmentation and video segmentation on made scenes, k-NN and linear
probe on made patches: from one checkpoint, and from the random weights that training
began with, side by side on one page. Continues where the demo or an interrupted run of
this command ended.
"""

from __future__ import annotations

import argparse
import warnings

from .demo import add_demo_arguments

STOPPED = 'Stopped. Run the command again to continue.'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_demo_arguments(parser)
    for option, what in (
        ('--epochs', 'epochs of pre-training'),
        ('--detection-epochs', 'epochs of the detector'),
        ('--segmentation-iters', 'iterations of the segmentor'),
    ):
        parser.add_argument(
            option, type=int, help=f"number of {what}; without it, the config's"
        )


def run(args: argparse.Namespace) -> list:
    from mmbam.demo.chain import ChainSettings, run_chain

    with warnings.catch_warnings():
        # Of torch and mmdet; a reader here cannot do anything about them.
        warnings.filterwarnings(
            'ignore', category=UserWarning, module='torch|mmdet|mmseg'
        )
        return run_chain(ChainSettings(**vars(args)))
