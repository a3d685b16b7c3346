"""Pictures, tables and sections of the page about a pre-training run.

``scores`` are, under the name of each network, its accuracies ``knn`` and ``linear``
and its ``clustering``: first those of a baseline without a network, then those of the
network before training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from mmengine.runner import Runner
from torch import nn

from mmbam.datasets.decoding import read_image
from mmbam.evaluation import build_loader
from mmbam.evaluation.accuracy import standard_error
from mmbam.visualization.attention import draw_attention, look
from mmbam.visualization.attention_histograms import (
    draw_similarities,
    embed_pairs,
    pair_histograms,
)
from mmbam.visualization.cluster_curves import draw_clustering
from mmbam.visualization.curves import read_run
from mmbam.visualization.heatmaps import draw_heat_maps
from mmbam.visualization.page import Cell, Picture, Section, Table
from mmbam.visualization.run_pictures import draw_course

TOP1, BAM = 'knn/top1', 'trained with BAM'
PICTURES = tuple(
    f'{name}.png'
    for name in ('curves', 'clustering', 'similarities', 'heatmaps', 'attention')
)
Scores = Mapping[str, Mapping]


def draw_pictures(
    out: Path, runner: Runner, start: nn.Module, scores: Scores, coco_root: str
) -> None:
    """Draw the pictures of a finished run into a folder.

    ``start`` is the backbone before training; ``coco_root`` holds scenes to look at.
    """
    networks = {'random network': start, BAM: runner.model.target_backbone}
    preprocessor = runner.model.data_preprocessor
    course = read_run(runner.work_dir)
    baselines = {name: scores[name]['knn'] for name in list(scores)[:2]}
    with_start = dict(course)
    if TOP1 in course:
        steps, values = course[TOP1]
        with_start[TOP1] = [0, *steps], [list(baselines.values())[1], *values]
    draw_course(with_start, out / 'curves.png', accuracies=baselines)
    draw_clustering(
        {name: of_network['clustering'] for name, of_network in scores.items()},
        out / 'clustering.png',
    )
    # Test patches through the views that the network was trained on.
    views = {**runner.cfg.train_dataloader.dataset, 'split': 'val'}
    pairs = build_loader(views, batch_size=200, num_workers=0)
    draw_similarities(
        {
            name: pair_histograms(*embed_pairs(network, preprocessor, pairs))
            for name, network in networks.items()
        },
        out / 'similarities.png',
    )
    files = sorted((Path(coco_root) / 'val2017').glob('*.jpg'))[:8]
    scenes = np.stack([read_image(file) for file in files])
    size = min(scenes.shape[1:3])
    gazes = {
        name: [look(network, preprocessor, scene, size) for scene in scenes]
        for name, network in networks.items()
    }
    draw_heat_maps(
        scenes,
        {name: [gaze.mean for gaze in seen] for name, seen in gazes.items()},
        out / 'heatmaps.png',
        'Heat maps of scenes that the network was not trained on',
    )
    if gazes[BAM][0].heads is not None:
        draw_attention(gazes[BAM][:4], out / 'attention.png')


def score_table(scores: Scores, tested: int, caption: str = '') -> Table:
    """Tabulate scores on ``tested`` images; of clustering, those of most classes."""
    most = max(next(iter(scores.values()))['clustering'])
    header = ['features', 'k-NN (%)', 'linear probe (%)', 'NMI (%)', 'ARI (%)']
    rows: list[list[Cell]] = []
    for name, of_network in scores.items():
        clusters = of_network['clustering'][most]
        accuracies = (of_network[key] for key in ('knn', 'linear'))
        rows.append([
            name,
            *((value, standard_error(value, tested)) for value in accuracies),
            *((clusters[key], clusters[f'{key}_std']) for key in ('nmi', 'ari')),
        ])  # fmt: skip
    return Table(header, rows, caption)


def report_sections(
    introduction: Sequence[str], scores: Scores, tested: int, out: Path
) -> list[Section]:
    """Lay out a page about a run: introduction, scores, and pictures by topic."""

    def show(**captions: str) -> list[Picture]:
        files = ((out / f'{name}.png', text) for name, text in captions.items())
        return [Picture(file, text) for file, text in files if file.is_file()]

    return [
        Section('What was done', introduction),
        Section(
            'How good are the features?',
            [
                score_table(
                    scores,
                    tested,
                    f'Frozen features of {tested} test images. k-NN: 20 neighbors. '
                    'Linear probe: trained on the training images. Both ± the standard '
                    'error that follows from the number of images. NMI and ARI: '
                    'agreement of k-means clusters with the classes, mean ± standard '
                    'deviation. A value is marked if it is ahead of all others by '
                    'more than twice the error of their difference.',
                ),
                *show(
                    clustering='Agreement of clusters and classes by the number of '
                    'classes. 100 is perfect; an ARI of 0 is chance, while the NMI of '
                    'chance grows with the number of clusters.'
                ),
            ],
        ),
        Section(
            'How the run went',
            show(
                curves='Loss, entropies, learning rate and k-NN accuracy. In a healthy '
                'run the entropy of B stays below that of A and both fall (paper, '
                'Fig. 3).'
            ),
        ),
        Section(
            'Which images the network finds similar',
            show(
                similarities='Attention between views of test images, by the kind of '
                'pair (paper, Fig. 1). Pairs to the right of the dashed line get more '
                'attention than average. Labels were used to draw this, not to train.'
            ),
        ),
        Section(
            'Where the network looks',
            show(
                heatmaps='Heat maps of made scenes, before and after training.',
                attention='Attention from [cls] to the patches, mean and head by head '
                '(paper, App. E).',
            ),
        ),
    ]
