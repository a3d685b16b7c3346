"""Pre-train a tiny network with BAM, then do every downstream task with it.

Detection, semantic segmentation and video segmentation on made scenes, k-NN and linear
probe on made patches: from one checkpoint, and from the random weights that training
began with, side by side on one page. Goes on where the demo or an interrupted run of
this command ended.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

# Of torch, about itself and about mmdet: nothing that a reader here could change.
warnings.filterwarnings('ignore', category=UserWarning, module='torch|mmdet|mmseg')
sys.path.insert(0, str(Path(__file__).resolve().parent))  # for the demo

from demo import CONFIGS, PAGE, RESULTS, START, introduce, make_world, set_length  # noqa: E402
from mmengine.config import Config  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table as Lines  # noqa: E402

from mmbam.cli.common import run_command  # noqa: E402
from mmbam.demo.downstream import train_dense  # noqa: E402
from mmbam.demo.report import PICTURES, report_sections  # noqa: E402
from mmbam.evaluation.frozen import build_frozen  # noqa: E402
from mmbam.evaluation.video import FrameTokens, read_davis, segment_videos  # noqa: E402
from mmbam.visualization.predictions import draw_detections, draw_segmentations  # noqa: E402
from mmbam.visualization.page import Picture, Section, Table, write_page  # noqa: E402
from mmbam.visualization.video_strips import draw_strips  # noqa: E402

RANDOM, TRAINED = 'random weights', 'BAM'
LAST = 7  # frames of a video to look back to; they are short
HEADER = ['backbone', 'k-NN (%)', 'linear probe (%)', 'box AP (%)', 'mask AP (%)',
          'mIoU (%)', 'mAcc (%)', 'J & F (%)']  # fmt: skip


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument('--backbone', choices=('resnet', 'vit'), default='resnet')
    parser.add_argument('--out', type=Path, default='work_dirs/demo')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--epochs', type=int, help='of pre-training [of the config]')
    parser.add_argument(
        '--patches', type=int, nargs=2, default=(4000, 800), metavar=('TRAIN', 'TEST')
    )
    parser.add_argument(
        '--scenes', type=int, nargs=2, default=(200, 50), metavar=('TRAIN', 'TEST')
    )
    parser.add_argument('--detection-epochs', type=int, help='[of the config]')
    parser.add_argument('--segmentation-iters', type=int, help='[of the config]')
    args = parser.parse_args()
    if args.epochs is None:
        cfg = Config.fromfile(CONFIGS / f'bam_{args.backbone}_32px.py')
        args.epochs = cfg.train_cfg.max_epochs
    return args


def pretrain(args: argparse.Namespace) -> dict:
    """Run the demo, unless its results for these settings are there."""
    wanted = {k: getattr(args, k) for k in ('backbone', 'seed', 'epochs')}
    wanted |= {k: list(getattr(args, k)) for k in ('patches', 'scenes')}
    file = args.out / RESULTS
    if file.is_file():
        results = json.loads(file.read_text())
        if all(results.get(key) == value for key, value in wanted.items()):
            print(f'Pre-training is done already: {file}')
            return results
        raise ValueError(
            f'{str(file)!r} is of a run with other settings: name another --out, or '
            'remove that folder.'
        )
    demo = Path(__file__).with_name('demo.py')
    options = []
    for key, value in wanted.items():
        values = value if isinstance(value, list) else [value]
        options += [f'--{key}', *map(str, values)]
    code = subprocess.call([sys.executable, demo, '--out', args.out, *options])
    if code:
        raise ValueError(f'The pre-training ended with exit code {code}, see above.')
    return json.loads(file.read_text())


def detector(args: argparse.Namespace, roots: dict) -> Config:
    cfg = Config.fromfile(CONFIGS / f'cascade-mask-rcnn_{args.backbone}_world.py')
    for part in ('train', 'val', 'test'):
        cfg[f'{part}_dataloader'].dataset.data_root = roots['coco']
    annotations = str(Path(roots['coco'], 'annotations', 'instances_val2017.json'))
    cfg.val_evaluator.ann_file = cfg.test_evaluator.ann_file = annotations
    epochs = args.detection_epochs or cfg.train_cfg.max_epochs
    set_length(cfg, 'max_epochs', epochs)
    # The evaluation at the end is asked for, not part of training.
    cfg.train_cfg.val_interval = epochs + 1
    cfg.default_hooks.checkpoint.interval = epochs
    return cfg


def segmentor(args: argparse.Namespace, roots: dict) -> Config:
    cfg = Config.fromfile(CONFIGS / f'upernet_{args.backbone}_world.py')
    for part in ('train', 'val', 'test'):
        cfg[f'{part}_dataloader'].dataset.data_root = roots['ade20k']
    iters = args.segmentation_iters or cfg.train_cfg.max_iters
    set_length(cfg, 'max_iters', iters)
    cfg.train_cfg.val_interval = iters + 1
    cfg.default_hooks.checkpoint.interval = iters
    return cfg


def follow(args: argparse.Namespace, roots: dict, checkpoint: Path, out: Path) -> dict:
    """Scores of video segmentation in per cent, and a picture; or those of before."""
    file = out / 'scores.json'
    if file.is_file():
        return json.loads(file.read_text())
    cfg = Config.fromfile(CONFIGS / f'bam_{args.backbone}_32px.py')
    videos = read_davis(roots['davis'])
    # Twice the frames' size: a token is then 8 pixels wide.
    tokens = FrameTokens(*build_frozen(cfg, str(checkpoint)), 256)
    scores = segment_videos(tokens, videos, out, [LAST], progress=False)[LAST]
    draw_strips(videos[:3], out / f'T{LAST}', out / 'strips.png', out.name)
    file.write_text(json.dumps(scores))
    return scores


def print_rows(rows: list[list]) -> None:
    table = Lines(title='From the same heads and data')
    for name in HEADER:
        table.add_column(name, justify='left' if name == HEADER[0] else 'right')
    for name, *figures in rows:
        table.add_row(name, *(f'{figure:.1f}' for figure in figures))
    Console(width=120).print(table)


def main() -> None:
    args = parse_args()
    began = time.monotonic()
    results = pretrain(args)
    roots = make_world(  # there already
        args.out / 'world',
        seed=args.seed,
        patches=tuple(args.patches),
        scenes=tuple(args.scenes),
    )
    checkpoints = {
        RANDOM: args.out / START,
        TRAINED: args.out / 'run' / f'epoch_{args.epochs}.pth',
    }
    in_results = {RANDOM: 'random network', TRAINED: 'trained teacher'}
    rows, found, segmented = [], {}, {}
    for name, checkpoint in checkpoints.items():
        folder = name.replace(' ', '_')
        print(f'Detection, from {name}')
        detection = train_dense(
            detector(args, roots), checkpoint, args.out / 'detection' / folder
        )
        print(f'Semantic segmentation, from {name}')
        segmentation = train_dense(
            segmentor(args, roots), checkpoint, args.out / 'segmentation' / folder
        )
        print(f'Video segmentation, from {name}')
        video = follow(args, roots, checkpoint, args.out / 'video' / folder)
        found[name], segmented[name] = detection['samples'], segmentation['samples']
        rows.append([
            name,
            results['knn_top1'][in_results[name]],
            results['linear_top1'][in_results[name]],
            100 * detection['metrics']['coco/bbox_mAP'],
            100 * detection['metrics']['coco/segm_mAP'],
            segmentation['metrics']['mIoU'],
            segmentation['metrics']['mAcc'],
            video['J&F'],
        ])  # fmt: skip
    classes = class_names(roots)
    draw_detections(found, classes, args.out / 'detections.png')
    draw_segmentations(segmented, classes, args.out / 'segmentations.png')
    write(args, results, rows, time.monotonic() - began)
    print_rows(rows)
    print(f'{time.monotonic() - began:.0f} s. All of it: {(args.out / PAGE).resolve()}')


def class_names(roots: dict) -> list[str]:
    """Names of the world's photographs, in the order of their labels."""
    file = Path(roots['coco'], 'annotations', 'instances_val2017.json')
    return [c['photograph'] for c in json.loads(file.read_text())['categories']]


def write(
    args: argparse.Namespace, results: dict, rows: list[list], seconds: float
) -> None:
    """The figures as JSON, and the demo's page with what the chain adds."""
    table = [dict(zip(HEADER, row)) for row in rows]
    chain = dict(rows=table, seconds=round(seconds, 1))
    (args.out / 'chain.json').write_text(json.dumps(chain, indent=2))
    scores = {
        name: dict(
            knn=results['knn_top1'][name],
            linear=results['linear_top1'][name],
            clustering={int(t): s for t, s in results['clustering'][name].items()},
        )
        for name in results['knn_top1']
    }
    pictures = [args.out / name for name in PICTURES if (args.out / name).is_file()]
    sections = report_sections(introduce(results), scores, pictures)
    downstream = Section(
        'Downstream, from BAM and from random weights',
        [
            'Cascade Mask R-CNN and UPerNet were trained on the same made scenes with '
            'the same settings; videos were segmented by nearest neighbours of frozen '
            'features, k-NN and linear probe look at frozen features of patches.',
            Table(HEADER, rows, f'One run each, seed {args.seed}.'),
            Picture(
                args.out / 'detections.png', 'Objects of test scenes, score above 0.2.'
            ),
            Picture(args.out / 'segmentations.png', 'Classes of the pixels of scenes.'),
            *(
                Picture(
                    args.out / 'video' / folder / 'strips.png',
                    f'Masks propagated from the first frame, {folder}.',
                )
                for folder in (RANDOM.replace(' ', '_'), TRAINED)
            ),
        ],
    )
    write_page(
        args.out / PAGE,
        'What a tiny network learned with BAM, and what it is good for',
        [sections[0], downstream, *sections[1:]],
    )


if __name__ == '__main__':
    run_command(main)
