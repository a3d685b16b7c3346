"""The chain: from one pre-training run to every downstream task.

Each task starts from the trained and from the random weights. What an earlier call
with the same settings finished is taken from its files.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from mmengine.config import Config

from mmbam.evaluation.frozen import build_frozen
from mmbam.evaluation.video import FrameTokens, read_davis, segment_videos
from mmbam.utils.errors import InputError
from mmbam.utils.files import write_text
from mmbam.utils.tables import print_table
from mmbam.visualization.page import Picture, Section, Table, write_page
from mmbam.visualization.predictions import draw_detections, draw_segmentations
from mmbam.visualization.video_strips import draw_strips

from .downstream import train_dense
from .report import report_sections
from .run import (
    MEASURES,
    PAGE,
    RESULTS,
    START,
    DemoSettings,
    introduce,
    run_demo,
    set_length,
    tiny_config,
)

ANNOTATIONS = 'annotations/instances_val2017.json'
RANDOM, TRAINED = 'random weights', 'BAM'
#: Names of the same networks in the results of the demo.
IN_RESULTS = {RANDOM: 'random network', TRAINED: 'trained teacher'}
LAST = 7  # Number of preceding frames to look at; the made videos are short.
HEADER = ['backbone', 'k-NN (%)', 'linear probe (%)', 'box AP (%)', 'mask AP (%)',
          'mIoU (%)', 'mAcc (%)', 'J & F (%)']  # fmt: skip


@dataclass
class ChainSettings(DemoSettings):
    """What a user can choose in the chain, besides the settings of the demo.

    Args:
        detection_epochs (int, optional): Number of epochs of the detector. Defaults to
            None, which takes the config's.
        segmentation_iters (int, optional): Number of iterations of the segmentor.
            Defaults to None, which takes the config's.
    """

    detection_epochs: int | None = None
    segmentation_iters: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ('detection_epochs', 'segmentation_iters'):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f'{name} must be at least 1, got {value}.')

    def of_demo(self) -> DemoSettings:
        """Return the settings of the demo alone."""
        fields = DemoSettings.__dataclass_fields__
        return DemoSettings(**{name: getattr(self, name) for name in fields})


def run_chain(settings: ChainSettings) -> list[list]:
    """Pre-train, then run every downstream task; print progress and a table.

    Returns a row for each of the two networks, with the columns ``HEADER``.
    """
    began = time.monotonic()
    out = Path(settings.out)
    results = pretrain_once(settings.of_demo())
    roots = settings.make_world()  # It is there already.
    checkpoints = {
        RANDOM: out / START,
        TRAINED: out / 'run' / f'epoch_{settings.epochs}.pth',
    }
    rows, detected, segmented = [], {}, {}
    for name, checkpoint in checkpoints.items():
        folder = name.replace(' ', '_')
        print(f'Detection, from {name}')
        cfg = detector_config(settings, roots['coco'])
        detection = train_dense(cfg, checkpoint, out / 'detection' / folder)
        print(f'Semantic segmentation, from {name}')
        cfg = segmentor_config(settings, roots['ade20k'])
        segmentation = train_dense(cfg, checkpoint, out / 'segmentation' / folder)
        print(f'Video segmentation, from {name}')
        video = segment_once(
            settings.backbone, roots['davis'], checkpoint, out / 'video' / folder
        )
        detected[name], segmented[name] = detection['samples'], segmentation['samples']
        rows.append([
            name,
            results['knn_top1'][IN_RESULTS[name]],
            results['linear_top1'][IN_RESULTS[name]],
            100 * detection['metrics']['coco/bbox_mAP'],
            100 * detection['metrics']['coco/segm_mAP'],
            segmentation['metrics']['mIoU'],
            segmentation['metrics']['mAcc'],
            video['J&F'],
        ])  # fmt: skip
    annotations = Path(roots['coco'], ANNOTATIONS).read_text()
    classes = [c['photograph'] for c in json.loads(annotations)['categories']]
    draw_detections(detected, classes, out / 'detections.png')
    draw_segmentations(segmented, classes, out / 'segmentations.png')
    seconds = time.monotonic() - began
    table = [dict(zip(HEADER, row)) for row in rows]
    result = dict(rows=table, seconds=round(seconds, 1))
    write_text(out / 'chain.json', json.dumps(result, indent=2))
    _write_page(settings, results, rows)
    print_table('Downstream tasks, same heads and data', HEADER, rows)
    print(f'{seconds:.0f} s. All figures and pictures: {(out / PAGE).resolve()}')
    return rows


def pretrain_once(settings: DemoSettings) -> dict:
    """Run the demo, unless its results for the same settings are there; return them."""
    file = Path(settings.out, RESULTS)
    if not file.is_file():
        run_demo(settings)
        return json.loads(file.read_text())  # as a later call reads it
    results = json.loads(file.read_text())
    wanted = json.loads(json.dumps({**asdict(settings), 'out': results.get('out')}))
    if any(results.get(key) != value for key, value in wanted.items()):
        raise InputError(
            f'{str(file)!r} belongs to a run with other settings: choose another '
            '--out, or remove that folder.'
        )
    print(f'Pre-training is done already: {file}')
    return results


def detector_config(settings: ChainSettings, coco_root: str) -> Config:
    """Adapt the tiny detector to a made world."""
    cfg = tiny_config(f'cascade-mask-rcnn_{settings.backbone}_world')
    annotations = str(Path(coco_root, ANNOTATIONS))
    cfg.val_evaluator.ann_file = cfg.test_evaluator.ann_file = annotations
    return _adapt(cfg, coco_root, 'max_epochs', settings.detection_epochs)


def segmentor_config(settings: ChainSettings, ade20k_root: str) -> Config:
    """Adapt the tiny segmentor to a made world."""
    cfg = tiny_config(f'upernet_{settings.backbone}_world')
    return _adapt(cfg, ade20k_root, 'max_iters', settings.segmentation_iters)


def _adapt(cfg: Config, data_root: str, unit: str, length: int | None) -> Config:
    for part in ('train', 'val', 'test'):
        cfg[f'{part}_dataloader'].dataset.data_root = data_root
    length = length or cfg.train_cfg[unit]
    set_length(cfg, unit, length)
    # train_dense asks for the evaluation at the end, so training has none.
    cfg.train_cfg.val_interval = length + 1
    cfg.default_hooks.checkpoint.interval = length
    return cfg


def segment_once(backbone: str, davis_root: str, checkpoint: Path, out: Path) -> dict:
    """Segment the made videos, unless ``scores.json`` is there; return it."""
    file = out / 'scores.json'
    if file.is_file():
        return json.loads(file.read_text())
    videos = read_davis(davis_root)
    cfg = tiny_config(f'bam_{backbone}_32px')
    # Frames are doubled in size, so that a token is 8 of their pixels wide.
    tokens = FrameTokens(*build_frozen(cfg, str(checkpoint)), 256)
    scores = segment_videos(tokens, videos, out, [LAST], progress=False)[LAST]
    draw_strips(videos[:3], out / f'T{LAST}', out / 'strips.png', out.name)
    write_text(file, json.dumps(scores))
    return scores


def _write_page(settings: ChainSettings, results: dict, rows: list[list]) -> None:
    """Write the demo's page again, with a section about the downstream tasks."""
    out = Path(settings.out)
    scores = {
        network: {key: results[measure][network] for measure, key in MEASURES.items()}
        for network in results['knn_top1']
    }
    for of_network in scores.values():  # JSON has turned numbers into texts
        clusters = of_network['clustering'].items()
        of_network['clustering'] = {int(t): score for t, score in clusters}
    first, *others = report_sections(
        introduce(results), scores, settings.patches[1], out
    )
    strips = [
        Picture(
            out / 'video' / name.replace(' ', '_') / 'strips.png',
            f'Masks propagated from the first frame, {name}.',
        )
        for name in (RANDOM, TRAINED)
    ]
    downstream = Section(
        'Downstream, from BAM and from random weights',
        [
            'Cascade Mask R-CNN and UPerNet were trained on the same made scenes with '
            'the same settings. Videos were segmented by nearest neighbours of frozen '
            'features. k-NN and linear probe use frozen features of patches.',
            Table(HEADER, rows, f'One run each, seed {settings.seed}.'),
            Picture(
                out / 'detections.png', 'Objects in test scenes, score at least 0.2.'
            ),
            Picture(out / 'segmentations.png', 'Class of each pixel in test scenes.'),
            *strips,
        ],
    )
    title = 'What a tiny network learned with BAM, and what it is good for'
    write_page(out / PAGE, title, [first, downstream, *others])
