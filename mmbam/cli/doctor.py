"""Say what fits and what does not: packages, devices, data loading, curves of a run.

Without arguments it looks at packages and devices alone.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from .arguments import add_options_argument

if TYPE_CHECKING:
    from mmbam.engine.doctor import Finding


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'run', nargs='?', help='work directory of a run, whose curves are judged'
    )
    parser.add_argument(
        '--data',
        metavar='CONFIG_OR_DIR',
        help='config whose loading and training steps are timed, or a folder of images '
        'whose loading is timed',
    )
    add_options_argument(parser, 'the config of --data')


def run(args: argparse.Namespace) -> dict[str, list[dict]]:
    from mmbam.engine.diagnosis import check_run
    from mmbam.engine.doctor import (
        PROBLEM,
        check_data,
        check_devices,
        check_versions,
    )

    found = {'Packages': check_versions(), 'Devices': check_devices()}
    if args.run is not None:
        found['Curves'] = check_run(args.run)
    if args.data is not None:
        found['Data'] = check_data(args.data, args.cfg_options)
    for title, findings in found.items():
        print(f'{title}:')
        for finding in findings:
            show(finding)
    everything = [one for findings in found.values() for one in findings]
    problems = sum(one.level == PROBLEM for one in everything)
    print(f'{problems or "No"} problem{"" if problems == 1 else "s"} found.')
    return {name: [asdict(one) for one in part] for name, part in found.items()}


def show(finding: Finding) -> None:
    """Print a finding, and below it what usually helps."""
    print(f'  {finding.level:8}{finding.text}')
    if finding.help:
        print(f'          {finding.help}')
