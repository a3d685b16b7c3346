"""Agreement of k-means clusters with the classes (the paper's appendix I)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mmengine.dist import all_gather_object, get_dist_info
from torch import Tensor

from mmbam.utils.errors import InputError

from .accuracy import check_labels

NUM_CLASSES = (10, 20, 40, 80, 160)


def cluster_scores(
    features: Tensor,
    labels: Tensor,
    num_classes: Sequence[int] | None = None,
    draws: int = 10,
    seed: int = 0,
) -> dict[int, dict[str, float]]:
    """Cluster the features of randomly drawn classes and compare with their labels.

    The ranks share the draws; each draw depends on its own seed alone.

    Args:
        features (Tensor): Features of shape (N, d), the same on every rank.
        labels (Tensor): Labels of shape (N,).
        num_classes (Sequence[int], optional): Numbers t of classes to draw; k-means
            looks for t clusters among their samples. Defaults to None: those of 10, 20,
            40, 80 and 160 that do not exceed the data's number of classes, or all its
            classes if there are fewer than 10.
        draws (int): Number of draws for each t. Defaults to 10.
        seed (int): Seed of the draws and of k-means. Defaults to 0.

    Returns:
        dict[int, dict[str, float]]: For each t the mean and the standard deviation over
        the draws of the normalized mutual information and the adjusted Rand index, both
        in per cent: ``nmi``, ``nmi_std``, ``ari``, ``ari_std``.
    """
    check_labels('Clustering', features, labels)
    if draws < 1 or seed < 0:
        raise InputError(
            f'draws must be at least 1 and seed at least 0, but got draws={draws} and '
            f'seed={seed}.'
        )
    x, y = features.cpu().numpy(), labels.cpu().numpy()
    classes = np.unique(y)
    if len(classes) < 2:
        raise InputError(
            f'Clustering needs at least 2 classes, but the data has {len(classes)}.'
        )
    if num_classes is None:
        num_classes = [t for t in NUM_CLASSES if t <= len(classes)] or [len(classes)]
    for t in num_classes:
        if not 2 <= t <= len(classes):
            raise InputError(
                f'num_classes must be from 2 to the {len(classes)} classes of the '
                f'data, but one is {t}.'
            )
    jobs = [(t, draw) for t in num_classes for draw in range(draws)]
    rank, world_size = get_dist_info()
    mine = {job: _score(x, y, classes, *job, seed) for job in jobs[rank::world_size]}
    scores = {job: s for part in all_gather_object(mine) for job, s in part.items()}
    result: dict[int, dict[str, float]] = {t: {} for t in num_classes}
    for t in num_classes:
        of_t = 100 * np.array([scores[t, draw] for draw in range(draws)]).T
        for name, values in zip(('nmi', 'ari'), of_t):
            result[t][name] = float(values.mean())
            result[t][f'{name}_std'] = float(values.std())
    return result


def _score(
    x: np.ndarray, y: np.ndarray, classes: np.ndarray, t: int, draw: int, seed: int
) -> tuple[float, float]:
    # Late, because hooks import this package and do not need scikit-learn.
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    rng = np.random.default_rng([seed, t, draw])
    chosen = np.isin(y, rng.choice(classes, t, replace=False))
    means = KMeans(t, n_init=1, random_state=int(rng.integers(2**31)))
    clusters = means.fit_predict(x[chosen])
    return (
        normalized_mutual_info_score(y[chosen], clusters),
        adjusted_rand_score(y[chosen], clusters),
    )
