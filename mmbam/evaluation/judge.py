"""How good features look without labels, and which of several networks to take.

Nothing here has been measured on real runs yet: how far a ranking can be trusted has to
come from runs whose accuracy is known (:func:`correlations`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mmbam.models import BAMLoss
from mmbam.utils.errors import InputError

from .agreement import neighbour_agreement
from .rankme import rankme
from .similarity import pair_similarities

NEIGHBOURS = 10
# Views of an image are hardly nearer than other images, or features fill one direction.
LEAST_GAP, LEAST_RANK = 0.05, 1.5


@dataclass(frozen=True)
class Signals:
    """What features of several views of images show without labels.

    Args:
        rankme (float): Effective rank of the features of the first views (RankMe).
        lidar (float): Effective rank of what tells images apart, in units of what tells
            views of an image apart (LiDAR).
        alpha (float): Exponent with which the variance of the features falls along
            their principal directions (alpha-ReQ).
        positive (float): Mean cosine similarity of two views of one image, after the
            mean of all features was taken away.
        other (float): Mean similarity of views of different images.
        agreement (float): Share of the nearest images that two views of an image have
            in common, in per cent.
        entropy_a (float): Mean entropy of the rows of A in nats.
        entropy_b (float): Mean entropy of the rows of B in nats.
    """

    rankme: float
    lidar: float
    alpha: float
    positive: float
    other: float
    agreement: float
    entropy_a: float
    entropy_b: float

    @property
    def collapsed(self) -> bool:
        """Whether the features hardly tell images apart, or are not finite."""
        gap = self.positive - self.other
        return not (gap > LEAST_GAP and self.lidar > LEAST_RANK)


#: Scores by name; a larger one is held to be better.
SCORES: dict[str, Callable[[Signals], float]] = {
    'rankme': lambda signals: signals.rankme,
    'lidar': lambda signals: signals.lidar,
    'alpha': lambda signals: -abs(signals.alpha - 1),
    'gap': lambda signals: signals.positive - signals.other,
    'agreement': lambda signals: signals.agreement,
    'sharpness': lambda signals: signals.entropy_a - signals.entropy_b,
}


def measure_signals(features: Tensor, latents: Tensor | None = None) -> Signals:
    """Measure all signals of a network.

    Args:
        features (Tensor): Embeddings of V >= 2 views of n images, shape (V, n, d).
        latents (Tensor, optional): Latents of the same views, for the entropies of A
            and B. Defaults to None: the embeddings, without their mean.
    """
    if features.dim() != 3 or features.shape[0] < 2:
        raise InputError(
            'Signals need features of shape (V, n, d) with at least 2 views, but got '
            f'{tuple(features.shape)}.'
        )
    if features.shape[1] <= NEIGHBOURS:
        raise InputError(
            f'Signals need more than {NEIGHBOURS} images, but got {features.shape[1]}.'
        )
    x = features.detach().double()
    if not x.isfinite().all():
        return Signals(*[math.nan] * 8)
    # Features of a CNN are all positive: without their mean, angles tell more.
    centered = x - x.mean(dim=(0, 1))
    positive, other = pair_similarities(centered)
    loss = BAMLoss(num_views=len(x))
    loss((centered if latents is None else latents.detach().double()).flatten(0, 1))
    return Signals(
        rankme=rankme(x[0]),
        lidar=lidar(x),
        alpha=spectral_decay(x[0]),
        positive=positive,
        other=other,
        agreement=neighbour_agreement(x[0], x[1], NEIGHBOURS),
        entropy_a=loss.stats['entropy_a'].item(),
        entropy_b=loss.stats['entropy_b'].item(),
    )


def lidar(features: Tensor, delta: float = 1e-4) -> float:
    """Compute the effective rank of a linear discriminant analysis of images.

    `LiDAR <https://arxiv.org/abs/2312.04000>`_ (ICLR 2024), with every image as a class
    of its own and its views as samples. It ranges from 1 to the smaller of n - 1 and d.

    Args:
        features (Tensor): Features of V >= 2 views of n images, shape (V, n, d).
        delta (float): Variance added to every direction within images. Defaults to
            1e-4, as published.

    Returns:
        float: The effective rank; 1 for features that are all the same.
    """
    x = features.detach().double()
    num_views, num_images, dim = x.shape
    means = x.mean(dim=0)
    between = (means - means.mean(dim=0)).T.cov(correction=0)
    within = (x - means).flatten(0, 1)
    within = within.T @ within / (num_images * (num_views - 1))
    values, vectors = torch.linalg.eigh(
        within.reshape(dim, dim) + delta * torch.eye(dim).to(within)
    )
    whiten = vectors * values.clamp(min=delta).rsqrt() @ vectors.T
    ratios = torch.linalg.eigvalsh(whiten @ between.reshape(dim, dim) @ whiten)
    shares = ratios.clamp(min=0)
    if shares.sum() == 0:
        return 1.0
    shares = shares / shares.sum()
    return torch.special.entr(shares).sum().exp().item()


def spectral_decay(features: Tensor) -> float:
    """Fit how fast the variance falls along the principal directions.

    `alpha-ReQ <https://arxiv.org/abs/2202.05808>`_ (NeurIPS 2022): the k-th largest
    variance is taken to be proportional to ``k ** -alpha``; an alpha near 1 goes with
    good features.

    Args:
        features (Tensor): Features of shape (N, d).

    Returns:
        float: alpha; NaN if the features vary in fewer than two directions.
    """
    x = features.detach().double()
    x = x - x.mean(dim=0)
    variances = torch.linalg.svdvals(x).square()
    variances = variances[variances > 1e-10 * variances.max()]
    if len(variances) < 2:
        return math.nan
    ranks = torch.arange(1, len(variances) + 1, dtype=torch.float64)
    x, y = ranks.log().numpy(), variances.cpu().log().numpy()
    return -float(np.polyfit(x, y, 1)[0])


def ranking(
    candidates: Mapping[str, Signals],
    scores: Sequence[str] = ('lidar', 'gap', 'agreement'),
) -> list[str]:
    """Order networks by the mean of their ranks in several scores, the best first.

    Args:
        candidates (Mapping[str, Signals]): Signals of each network, of the same images
            and views, under its name. At equal ranks the earlier one is first.
        scores (Sequence[str]): Names of :data:`SCORES`. Collapsed networks come last.
            Defaults to ``('lidar', 'gap', 'agreement')``.

    Returns:
        list[str]: All names.
    """
    unknown = [name for name in scores if name not in SCORES]
    if unknown or not scores:
        raise InputError(
            f'scores must name some of {", ".join(SCORES)}, but got {list(scores)}.'
        )
    points = dict.fromkeys(candidates, 0.0)
    for score in scores:
        values = {name: SCORES[score](s) for name, s in candidates.items()}
        for name, value in values.items():
            # Ties share their rank; what is no number is worse than all.
            points[name] += sum(_better(v, value) for v in values.values())
            points[name] += 0.5 * sum(v == value for v in values.values())
    return sorted(candidates, key=lambda n: (candidates[n].collapsed, points[n]))


def correlations(
    candidates: Mapping[str, Signals], accuracies: Mapping[str, float]
) -> dict[str, float]:
    """Compute Spearman's correlation of every score, and of the ranking, with accuracy.

    Args:
        candidates (Mapping[str, Signals]): Signals of each network under its name.
        accuracies (Mapping[str, float]): Accuracy of each network.

    Returns:
        dict[str, float]: Correlations under the names of :data:`SCORES`, and that of
        :func:`ranking` as ``'ranking'``; NaN where a score is the same for all.
    """
    if len(candidates) < 2 or set(candidates) != set(accuracies):
        raise InputError(
            'Correlations need signals and accuracies of the same networks, at least '
            f'two, but got {", ".join(candidates)} and {", ".join(accuracies)}.'
        )
    from scipy.stats import rankdata  # late, because hooks do not need scipy

    truth = rankdata([accuracies[name] for name in candidates])
    order = ranking(candidates)
    values = {
        name: [score(signals) for signals in candidates.values()]
        for name, score in SCORES.items()
    }
    values['ranking'] = [-order.index(name) for name in candidates]
    return {name: _pearson(rankdata(v), truth) for name, v in values.items()}


def _better(one: float, other: float) -> bool:
    return not math.isnan(one) and (math.isnan(other) or one > other)


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    if np.ptp(x) == 0 or np.ptp(y) == 0 or not np.isfinite(x).all():
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])
