"""J and F on DAVIS-2017 of masks propagated by the features of a checkpoint.

Labels of the first frame go from frame to frame by nearest neighbours of frozen patch
tokens, with the first and the T last frames as context.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mmengine.config import Config, DictAction
from mmengine.dist import is_main_process

from mmbam.checkpoints.selection import SOURCES
from mmbam.cli.common import run_command
from mmbam.evaluation.frozen import build_frozen
from mmbam.evaluation.video import FrameTokens, read_davis, segment_videos
from mmbam.visualization.video_strips import draw_strips

IN_PICTURE = 4


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument('config', help='config whose model.backbone is evaluated')
    parser.add_argument('checkpoint', help="of this project, the authors' or timm")
    parser.add_argument('--root', default='data/DAVIS', help='of DAVIS-2017, 480p')
    parser.add_argument('--split', default='val', help='list in ImageSets/2017')
    parser.add_argument(
        '--out', type=Path, default='work_dirs/davis', help='PNGs, table and picture'
    )
    parser.add_argument(
        '--last', type=int, nargs='+', default=[7, 14, 21, 28], metavar='T',
        help='numbers of last frames to use beside the first',
    )  # fmt: skip
    parser.add_argument(
        '--size', type=int, default=480, help='shorter side of the frames, in pixels'
    )
    parser.add_argument('--k', type=int, default=5, help='neighbours of a token')
    parser.add_argument('--radius', type=int, default=12, help='in tokens')
    parser.add_argument('--temperature', type=float, default=0.1)
    parser.add_argument(
        '--no-scores',
        action='store_true',
        help='only write PNGs: for a split of which only first frames are annotated',
    )
    parser.add_argument('--source', choices=SOURCES, default='auto', help='network')
    parser.add_argument('--cfg-options', nargs='+', action=DictAction, default={})
    return parser.parse_args()


def table(results: dict[int, dict]) -> str:
    """One row for each T, in per cent."""
    names = [name for name in next(iter(results.values())) if name != 'objects']
    rows = [['T', *names]]
    rows += [[str(t), *(f'{r[n]:.2f}' for n in names)] for t, r in results.items()]
    return '\n'.join(''.join(f'{cell:>10}' for cell in row) for row in rows)


def main() -> None:
    args = parse_args()
    scored = not args.no_scores
    protocol = dict(k=args.k, radius=args.radius, temperature=args.temperature)
    videos = read_davis(args.root, args.split, scored)
    cfg = Config.fromfile(args.config)
    cfg.merge_from_dict(args.cfg_options)
    tokens = FrameTokens(*build_frozen(cfg, args.checkpoint, args.source), args.size)
    results = segment_videos(
        tokens, videos, args.out, args.last, scored=scored, **protocol
    )
    if not is_main_process():
        return
    if scored:
        print(table(results))
        written = dict(
            config=args.config, checkpoint=args.checkpoint, source=args.source,
            root=args.root, split=args.split, size=args.size, **protocol,
            results=results,
        )  # fmt: skip
        (args.out / 'results.json').write_text(json.dumps(written, indent=2))
    last, name = max(args.last), Path(args.checkpoint).name
    draw_strips(
        videos[:IN_PICTURE],
        args.out / f'T{last}',
        args.out / 'strips.png',
        f'Masks propagated from the first frame, T = {last}, {name}',
    )
    print(f'Wrote {args.out}: masks of {len(videos)} sequences, and strips.png')


if __name__ == '__main__':
    run_command(main)
