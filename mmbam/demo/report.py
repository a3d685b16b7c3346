"""Pictures, tables and sections of the page about a pre-training run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mmbam.models import heat_map
from mmbam.utils.model import frozen
from mmbam.visualization.attention import draw_attention, look
from mmbam.visualization.attention_histograms import (
    draw_similarities,
    embed_pairs,
    pair_histograms,
)
from mmbam.visualization.cluster_curves import draw_clustering
from mmbam.visualization.curves import draw_curves, draw_entropies, read_run
from mmbam.visualization.heatmaps import draw_heat_maps
from mmbam.visualization.page import Picture, Section, Table

TOP1 = 'knn/top1'
PICTURES = (
    *('curves.png', 'entropies.png', 'clustering.png', 'similarities.png'),
    *('heatmaps.png', 'attention.png'),
)


def draw_pictures(
    out: Path,
    run: str | Path,
    scores: Mapping[str, Mapping],
    before: nn.Module,
    after: nn.Module,
    preprocessor: nn.Module,
    pairs: Iterable[dict],
    scenes: np.ndarray,
) -> list[Path]:
    """Draw the pictures of a run.

    Args:
        out (Path): Folder for the pictures.
        run (str | Path): Work directory of the run.
        scores (Mapping[str, Mapping]): Result of
            :func:`mmbam.evaluation.summary.score_features` for each network, under its
            name. The first must be a baseline without a network, the second the
            network before training.
        before (nn.Module): Backbone at its random initialization.
        after (nn.Module): Trained backbone.
        preprocessor (nn.Module): Module that normalizes images for both.
        pairs (Iterable[dict]): Batches of labelled images in at least two views, in
            the same order each time they are read.
        scenes (np.ndarray): RGB images of uint8, shape (n, h, w, 3).

    Returns:
        list[Path]: Files that were written.
    """
    networks = {'random network': before, 'trained with BAM': after}
    course = read_run(run)
    baselines = {name: scores[name]['knn'] for name in list(scores)[:2]}
    with_start = dict(course)
    if TOP1 in course:
        steps, values = course[TOP1]
        start = list(baselines.values())[1]
        with_start[TOP1] = [0, *steps], [start, *values]
    draw_curves(with_start, out / 'curves.png', baselines)
    draw_entropies({'run': course}, out / 'entropies.png')
    draw_clustering(
        {name: of_network['clustering'] for name, of_network in scores.items()},
        out / 'clustering.png',
    )
    draw_similarities(
        {
            name: pair_histograms(*embed_pairs(network, preprocessor, pairs))
            for name, network in networks.items()
        },
        out / 'similarities.png',
    )
    draw_heat_maps(
        scenes,
        {name: _heat(net, preprocessor, scenes) for name, net in networks.items()},
        out / 'heatmaps.png',
        'Heat maps of scenes that the network was not trained on',
    )
    size = min(scenes.shape[1:3])
    gazes = [look(after, preprocessor, scene, size) for scene in scenes[:4]]
    if gazes[0].heads is not None:
        draw_attention(gazes, out / 'attention.png')
    return [out / name for name in PICTURES if (out / name).is_file()]


def score_table(scores: Mapping[str, Mapping], caption: str = '') -> Table:
    """Tabulate the scores of networks; clustering with the largest number of classes.

    Args:
        scores (Mapping[str, Mapping]): As in :func:`draw_pictures`.
        caption (str): Text above the table. Defaults to none.
    """
    most = max(next(iter(scores.values()))['clustering'])
    header = ['features', 'k-NN (%)', 'linear probe (%)', 'NMI (%)', 'ARI (%)']
    rows = [
        [name, s['knn'], s['linear'], *_means_and_spreads(s['clustering'][most])]
        for name, s in scores.items()
    ]
    return Table(header, rows, caption)


def cluster_table(scores: Mapping[str, Mapping], caption: str = '') -> Table:
    """Tabulate the agreement of clusters and classes for each number of classes t.

    Args:
        scores (Mapping[str, Mapping]): As in :func:`draw_pictures`.
        caption (str): Text above the table. Defaults to none.
    """
    all_t = list(next(iter(scores.values()))['clustering'])
    header = [f'{name} (%), t = {t}' for t in all_t for name in ('NMI', 'ARI')]
    rows: list[list[Any]] = [
        [name, *(c for t in all_t for c in _means_and_spreads(s['clustering'][t]))]
        for name, s in scores.items()
    ]
    return Table(['features', *header], rows, caption)


def report_sections(
    introduction: Sequence[str],
    scores: Mapping[str, Mapping],
    pictures: Sequence[Path],
) -> list[Section]:
    """Lay out a page about a run, for :func:`~mmbam.visualization.page.write_page`.

    Args:
        introduction (Sequence[str]): Paragraphs about what was done.
        scores (Mapping[str, Mapping]): As in :func:`draw_pictures`.
        pictures (Sequence[Path]): Result of :func:`draw_pictures`.

    Returns:
        list[Section]: Introduction, scores, and pictures by topic.
    """
    drawn = {picture.name: picture for picture in pictures}

    def show(**captions: str) -> list[Picture]:
        named = ((drawn.get(f'{name}.png'), text) for name, text in captions.items())
        return [Picture(file, text) for file, text in named if file is not None]

    return [
        Section('What was done', introduction),
        Section(
            'How good are the features?',
            [
                score_table(
                    scores,
                    'Frozen features of test images. k-NN: 20 neighbours. Linear '
                    'probe: trained on the training images. NMI and ARI: agreement of '
                    'k-means clusters with the classes, mean ± standard deviation.',
                ),
                cluster_table(
                    scores,
                    'The same for t classes drawn at random, and k-means with t '
                    'clusters (paper, App. I).',
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
                curves='Loss, entropies and k-NN accuracy while training.',
                entropies='Entropies of A and B: in a healthy run B stays below A and '
                'both fall (paper, Fig. 3).',
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


def _means_and_spreads(clusters: Mapping[str, float]) -> list[tuple[float, float]]:
    return [(clusters[key], clusters[f'{key}_std']) for key in ('nmi', 'ari')]


def _heat(backbone: nn.Module, preprocessor: nn.Module, scenes: np.ndarray) -> Tensor:
    # Preprocessors of configs expect BGR.
    images = torch.from_numpy(scenes[..., ::-1].copy()).permute(0, 3, 1, 2)
    with frozen(backbone):
        data = preprocessor(dict(inputs=images, data_samples=None))
        return heat_map(backbone, data['inputs'])
