"""How good features look without labels, and whether a network has collapsed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from mmbam.models import BAMLoss
from mmbam.utils.errors import InputError

from .unlabeled import neighbour_agreement, pair_similarities, rankme

NEIGHBOURS = 20
LEAST_RANK = 1.5  # below it, features fill one direction


@dataclass(frozen=True)
class Signals:
    """What features of two views of images show without labels.

    Args:
        agreement (float): Share of the nearest images that two views of an image have
            in common, in per cent.
        positive (float): Mean cosine similarity of two views of one image, after the
            mean of all features was taken away.
        other (float): Mean similarity of views of different images.
        entropy (float): Mean entropy of the rows of BAM's attention A in nats.
        rankme (float): Effective rank of the features of the first views (RankMe).
    """

    agreement: float
    positive: float
    other: float
    entropy: float
    rankme: float

    @property
    def gap(self) -> float:
        """How much nearer views of one image are than others."""
        return self.positive - self.other


#: Scores by name; a larger one is held to be better.
SCORES: dict[str, Callable[[Signals], float]] = {
    'agreement': lambda signals: signals.agreement,
    'gap': lambda signals: signals.gap,
    'entropy': lambda signals: -signals.entropy,
    'rankme': lambda signals: signals.rankme,
}
#: The score that decides: of all, it went best with k-NN (docs/evaluation.md).
DECISIVE = 'agreement'


def measure_signals(features: Tensor) -> Signals:
    """Measure all signals of a network.

    Args:
        features (Tensor): Embeddings of two views of n images, shape (2, n, d).
    """
    if features.dim() != 3 or features.shape[0] != 2:
        raise InputError(
            'Signals need features of shape (2, n, d), but got '
            f'{tuple(features.shape)}.'
        )
    if features.shape[1] <= NEIGHBOURS:
        raise InputError(
            f'Signals need more than {NEIGHBOURS} images, but got {features.shape[1]}.'
        )
    x = features.detach().double()
    if not x.isfinite().all():
        return Signals(*[math.nan] * 5)
    # Features of a CNN are all positive: without their mean, angles tell more.
    centered = x - x.mean(dim=(0, 1))
    positive, other = pair_similarities(centered)
    loss = BAMLoss(num_views=2)
    loss(centered.flatten(0, 1))
    return Signals(
        agreement=neighbour_agreement(x[0], x[1], NEIGHBOURS),
        positive=positive,
        other=other,
        entropy=loss.stats['entropy_a'].item(),
        rankme=rankme(x[0]),
    )


def is_collapsed(signals: Signals, random: Signals) -> bool:
    """Tell whether a network tells images apart no better than a random one.

    Args:
        signals (Signals): Signals of the network.
        random (Signals): Signals of the same network before training, of the same
            images and views.
    """
    # Written so that what is no number is collapsed.
    return not (signals.gap > random.gap and signals.rankme > LEAST_RANK)


def best_of(candidates: Mapping[str, Signals]) -> str | None:
    """Return the network that looks best, the last of equals; None if there is none.

    Args:
        candidates (Mapping[str, Signals]): Signals of each network, of the same images
            and views, under its name.
    """
    names = reversed(list(candidates))
    return max(names, key=lambda n: SCORES[DECISIVE](candidates[n]), default=None)


def correlations(
    candidates: Mapping[str, Signals], accuracies: Mapping[str, float]
) -> dict[str, float]:
    """Compute Spearman's correlation of every score with accuracy.

    Args:
        candidates (Mapping[str, Signals]): Signals of each network under its name.
        accuracies (Mapping[str, float]): Accuracy of each network.

    Returns:
        dict[str, float]: Correlations under the names of :data:`SCORES`; NaN where a
        score is the same for all, or is no number for one.
    """
    if len(candidates) < 2 or set(candidates) != set(accuracies):
        raise InputError(
            'Correlations need signals and accuracies of the same networks, at least '
            f'two, but got {", ".join(candidates)} and {", ".join(accuracies)}.'
        )
    from scipy.stats import rankdata  # late, because hooks do not need scipy

    truth = rankdata([accuracies[name] for name in candidates])
    found = {}
    for name, score in SCORES.items():
        values = [score(signals) for signals in candidates.values()]
        known = np.isfinite(values).all() and np.ptp(values) > 0 and np.ptp(truth) > 0
        found[name] = (
            float(np.corrcoef(rankdata(values), truth)[0, 1]) if known else math.nan
        )
    return found
