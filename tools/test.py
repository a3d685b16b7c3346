"""Test a checkpoint with a config of mmbam or any other OpenMMLab project."""

from __future__ import annotations

import argparse

from mmbam.cli.common import run_command
from mmbam.engine import launch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config')
    parser.add_argument('checkpoint')
    parser.add_argument('--out', metavar='FILE.pkl', help='save the predictions')
    args, cfg = launch.parse(parser)
    launch.set_test(cfg, args.checkpoint, args.out, args.amp)
    launch.test(launch.build_runner(cfg))


if __name__ == '__main__':
    run_command(main, join=False)
