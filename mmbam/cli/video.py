"""J and F on DAVIS-2017 of masks propagated by the features of a checkpoint.

Labels of the first frame go from frame to frame by nearest neighbors of frozen patch
tokens, with the first and the T last frames as context.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .arguments import add_devices_argument, add_network_arguments

IN_PICTURE = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network_arguments(parser)
    add_devices_argument(parser)
    parser.add_argument(
        '--root', default='data/DAVIS', help='folder of DAVIS-2017 in 480p'
    )
    parser.add_argument(
        '--split', default='val', help='list of sequences in ImageSets/2017'
    )
    parser.add_argument(
        '--out',
        type=Path,
        default='work_dirs/davis',
        help='folder for masks, figures and picture',
    )
    parser.add_argument(
        '--last', type=int, nargs='+', default=[7, 14, 21, 28], metavar='T',
        help='numbers of preceding frames to use besides the first',
    )  # fmt: skip
    parser.add_argument(
        '--size', type=int, default=480, help='shorter side of the frames, in pixels'
    )
    parser.add_argument('--k', type=int, default=5, help='neighbors of a token')
    parser.add_argument(
        '--radius', type=int, default=12, help='radius of the search, in tokens'
    )
    parser.add_argument(
        '--temperature',
        type=float,
        default=0.1,
        help="temperature of the neighbors' weights",
    )
    parser.add_argument(
        '--no-scores',
        action='store_true',
        help='only write masks, for a split with annotations of first frames alone',
    )


def run(args: argparse.Namespace) -> dict:
    from mmengine.dist import is_main_process

    from mmbam.evaluation.video import FrameTokens, read_davis, segment_videos
    from mmbam.evaluation.video.propagation import check_protocol
    from mmbam.utils.files import require_writable, write_text
    from mmbam.utils.tables import print_table
    from mmbam.visualization.video_strips import draw_strips

    from .common import load_network

    scored = not args.no_scores
    protocol = dict(k=args.k, radius=args.radius, temperature=args.temperature)
    check_protocol(args.last, **protocol)
    require_writable(args.out / 'strips.png')
    videos = read_davis(args.root, args.split, scored)
    _, backbone, preprocessor = load_network(args)
    tokens = FrameTokens(backbone, preprocessor, args.size)
    results = segment_videos(
        tokens, videos, args.out, args.last, scored=scored, **protocol
    )
    if not is_main_process():
        return results
    if scored:
        names = [name for name in results[args.last[0]] if name != 'objects']
        print_table(
            'Video segmentation, in per cent',
            ['T', *names],
            [[t, *(f'{r[n]:.2f}' for n in names)] for t, r in results.items()],
        )
        written = dict(
            config=args.config, checkpoint=args.checkpoint, source=args.source,
            root=args.root, split=args.split, size=args.size, **protocol,
            results=results,
        )  # fmt: skip
        write_text(args.out / 'results.json', json.dumps(written, indent=2))
    last, name = max(args.last), Path(args.checkpoint).name
    draw_strips(
        videos[:IN_PICTURE],
        args.out / f'T{last}',
        args.out / 'strips.png',
        f'Masks propagated from the first frame, T = {last}, {name}',
    )
    print(f'Wrote {args.out}: masks of {len(videos)} sequences, and strips.png')
    return results
