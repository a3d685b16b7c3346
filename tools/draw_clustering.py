"""Draw NMI and ARI of several networks against the number of classes (App. I).

tools/cluster.py writes the figures of each network with ``--out``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mmbam.cli.common import run_command
from mmbam.visualization.cluster_curves import Scores, draw_clustering


def read_scores(path: Path) -> Scores:
    """What tools/cluster.py wrote."""
    if not path.is_file():
        raise FileNotFoundError(f'There is no file {str(path)!r}.')
    keys = ('nmi', 'nmi_std', 'ari', 'ari_std')
    try:
        content = json.loads(path.read_text())
        return {
            int(t): {key: float(s[key]) for key in keys} for t, s in content.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f'{str(path)!r} is not what tools/cluster.py --out writes.'
        ) from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'scores', nargs='+', metavar='NAME=JSON', help='name and file of a network'
    )
    parser.add_argument('--out', type=Path, default='clustering.png')
    args = parser.parse_args()
    scores = {}
    for given in args.scores:
        name, equals, path = given.partition('=')
        if not (name and equals and path):
            raise ValueError(f'Each network must be NAME=JSON, but got {given!r}.')
        if name in scores:
            raise ValueError(f'Two networks have the name {name!r}.')
        scores[name] = read_scores(Path(path))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    draw_clustering(scores, args.out)
    print(f'Wrote {args.out}')


if __name__ == '__main__':
    run_command(main)
