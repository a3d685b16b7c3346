"""Test a checkpoint with a config of mmbam or any other OpenMMLab project."""

from __future__ import annotations

import argparse

from .arguments import add_run_arguments

JOIN = False  # mmengine's runner does


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('config', help='config file, or mmbam::NAME for one of ours')
    parser.add_argument('checkpoint', help='file or address of the weights')
    parser.add_argument('--out', metavar='FILE.pkl', help='file for the predictions')
    add_run_arguments(parser)


def run(args: argparse.Namespace) -> dict[str, float]:
    from mmbam.engine import launch

    from .common import load_run_config

    cfg = load_run_config(args)
    launch.set_test(cfg, args.checkpoint, args.out, args.amp)
    return launch.test(launch.build_runner(cfg))
