"""Histograms of the attention between views, by the kind of pair (paper, Fig. 1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import normalize

from mmbam.evaluation.two_views import embed_two_views, first_views
from mmbam.models.losses.functional import attention
from mmbam.utils.errors import InputError

from .figures import save_figure

KINDS = ('two views of one image', 'same class', 'different classes')
_COLORS = ('tab:orange', 'tab:green', 'tab:blue')
_BINS = 80
_ROWS = 256  # of the attention matrix, computed at a time


@dataclass
class PairHistograms:
    """Histograms of the attention that pairs of views give each other.

    Args:
        edges (np.ndarray): Edges of the bins, probabilities on a logarithmic scale.
        counts (dict[str, np.ndarray]): Under each of ``KINDS`` the number of pairs in
            every bin.
        uniform (float): Probability if a view attended to all others equally.
    """

    edges: np.ndarray
    counts: dict[str, np.ndarray]
    uniform: float

    def density(self, kind: str) -> np.ndarray:
        """Return the height of the bins, such that the area on the log scale is 1.

        All heights are 0 if there is no pair of this kind.
        """
        counts = self.counts[kind]
        return counts / max(counts.sum(), 1) / np.diff(np.log10(self.edges))


def embed_pairs(
    backbone: nn.Module,
    preprocessor: nn.Module,
    batches: Iterable[dict],
    neck: nn.Module | None = None,
) -> tuple[Tensor, Tensor]:
    """Embed the first two views of labeled images: (2, n, d), and their labels (n,).

    Batches are those of a multi-view data set: ``inputs`` is a list of views, and
    ``data_samples`` has labels. A projector, the ``neck``, gives latents as the loss
    compares them, in place of embeddings.
    """
    labels = []

    def views() -> Iterator[Sequence[Tensor]]:
        for batch in batches:
            for sample in batch['data_samples']:
                if 'gt_label' not in sample:
                    raise InputError(
                        'Pairs are told apart by classes, but an image has no label: '
                        'give a folder of class folders.'
                    )
                labels.append(int(sample.gt_label))
            yield first_views(batch)

    latents = embed_two_views(backbone, preprocessor, views(), neck)
    return latents, torch.tensor(labels)


def pair_histograms(
    latents: Tensor, labels: Tensor, tau: float = 0.1
) -> PairHistograms:
    """Count the entries of the attention matrix by the kind of pair they belong to.

    The matrix is the row soft-max of the cosine similarities between all views. A
    view's similarity with itself is masked; nothing else is. Every ordered pair counts
    once.

    Args:
        latents (Tensor): Latents of shape (V, n, d), one row of images per view.
        labels (Tensor): Labels of the images, shape (n,).
        tau (float): Temperature of the soft-max. Defaults to 0.1, as in training.
    """
    if latents.dim() != 3 or latents.shape[1] != len(labels):
        raise ValueError(
            'Histograms of pairs need latents of shape (V, n, d) and n labels, but got '
            f'{tuple(latents.shape)} and {len(labels)}.'
        )
    num_views, num_images, _ = latents.shape
    if num_views < 2 or num_images < 2:
        raise InputError(
            'Histograms of pairs need at least 2 views of 2 images, but got '
            f'{num_views} of {num_images}.'
        )
    if not 0 < tau < math.inf:
        raise InputError(f'tau must be a finite number above 0, but got {tau}.')
    z = normalize(latents.float(), dim=-1).flatten(0, 1)
    ends = [row[row.isfinite()].aminmax() for row in _rows_of_attention(z, tau)]
    # A little wider, so that rounding leaves nothing outside.
    low = min(end.min.item() for end in ends) / math.log(10) - 0.01
    high = max(end.max.item() for end in ends) / math.log(10) + 0.01
    edges = np.linspace(low, high, _BINS + 1)
    counts = {kind: np.zeros(_BINS, np.int64) for kind in KINDS}
    image = torch.arange(num_images).repeat(num_views)
    label = labels.cpu().repeat(num_views)
    blocks = zip(image.split(_ROWS), label.split(_ROWS), _rows_of_attention(z, tau))
    for images, classes, row in blocks:
        same_image = images[:, None] == image
        same_class = classes[:, None] == label
        masks = same_image & row.isfinite(), same_class & ~same_image, ~same_class
        for kind, mask in zip(KINDS, masks):
            values = row[mask].double().numpy() / math.log(10)
            counts[kind] += np.histogram(values, edges)[0]
    return PairHistograms(10**edges, counts, 1 / (len(z) - 1))


def draw_similarities(
    histograms: Mapping[str, PairHistograms], path: str | Path
) -> None:
    """Draw the histograms of one or several networks, one below the other."""
    figure = Figure(figsize=(8.5, 3.3 * len(histograms) + 0.9), layout='constrained')
    panels = figure.subplots(len(histograms), 1, squeeze=False, sharex=True)[:, 0]
    for axes, (name, histogram) in zip(panels, histograms.items()):
        for kind, color in zip(KINDS, _COLORS):
            pairs = histogram.counts[kind].sum()
            if pairs:
                axes.stairs(
                    histogram.density(kind),
                    histogram.edges,
                    fill=True,
                    facecolor=to_rgba(color, 0.35),
                    edgecolor=color,
                    linewidth=1.5,
                    label=f'{kind} ({pairs:,} pairs)',
                )
        axes.axvline(
            histogram.uniform, color='gray', ls='--', label='uniform attention'
        )
        axes.set_xscale('log')
        axes.set(title=name, ylabel='Density per factor of 10\n(each area is 1)')
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    panels[-1].set_xlabel('Attention: row soft-max of the similarities (probability)')
    figure.suptitle('Attention between views, by the kind of pair')
    save_figure(figure, path)


def _rows_of_attention(z: Tensor, tau: float) -> Iterator[Tensor]:
    """Yield the logarithm of the attention in blocks of rows, -inf on the diagonal."""
    for start in range(0, len(z), _ROWS):
        s = z[start : start + _ROWS] @ z.T
        s.diagonal(start).fill_(-math.inf)
        yield attention(s, tau, log=True)
