"""J and F, the scores of DAVIS-2017 for semi-supervised video segmentation.

Masks are boolean and of shape (h, w).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import cv2
import numpy as np

#: Label of pixels that are not scored.
VOID = 255


def jaccard(result: np.ndarray, truth: np.ndarray) -> float:
    """Compute the region similarity J, intersection over union; 1 if both are empty."""
    union = np.count_nonzero(result | truth)
    return np.count_nonzero(result & truth) / union if union else 1.0


def boundary_f(result: np.ndarray, truth: np.ndarray) -> float:
    """Compute the contour accuracy F, harmonic mean of boundary precision and recall.

    A boundary pixel is found if the other mask has one within a disk around it, whose
    radius is 0.008 of the diagonal, rounded up to whole pixels. The
    score is 1 if neither mask has a boundary, and 0 if only one has.
    """
    radius = math.ceil(0.008 * math.hypot(*truth.shape))
    edges = [boundary(mask) for mask in (result, truth)]
    counts = [np.count_nonzero(edge) for edge in edges]
    if not all(counts):
        return float(not any(counts))
    # Nothing outside the boundaries' common box can match, so dilate only that.
    x, y, w, h = cv2.boundingRect(edges[0] | edges[1])
    edges = [edge[y : y + h, x : x + w] for edge in edges]
    span = np.arange(-radius, radius + 1)
    disk = (span[:, None] ** 2 + span**2 <= radius**2).astype(np.uint8)
    precision, recall = (
        np.count_nonzero(edge & cv2.dilate(other, disk)) / count
        for edge, other, count in zip(edges, edges[::-1], counts)
    )
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def boundary(mask: np.ndarray) -> np.ndarray:
    """Mark by 1 what differs from its right, lower or lower-right neighbour.

    The last row and column have no lower and right neighbours.
    """
    edge = np.zeros(mask.shape, np.uint8)
    edge[:, :-1] |= mask[:, :-1] ^ mask[:, 1:]
    edge[:-1] |= mask[:-1] ^ mask[1:]
    edge[:-1, :-1] |= mask[:-1, :-1] ^ mask[1:, 1:]
    return edge


def statistics(values: np.ndarray) -> dict[str, float]:
    """Compute mean, recall and decay of an object's scores over the frames in order.

    Recall is the share of frames above 0.5, decay the mean of the first quarter minus
    the mean of the last. As in the official toolkit, neighbouring quarters share one
    frame.
    """
    values = np.asarray(values, float)
    if values.size == 0:
        raise ValueError('Statistics need the score of at least one frame.')
    # Rounds half up, while np.round rounds half to even.
    ends = np.floor(np.linspace(0, len(values) - 1, 5) + 0.5 + 1e-10).astype(int)
    first, last = values[: ends[1] + 1], values[ends[3] :]
    return {
        'mean': float(values.mean()),
        'recall': float((values > 0.5).mean()),
        'decay': float(first.mean() - last.mean()),
    }


def object_scores(
    results: Iterable[np.ndarray], truths: Iterable[np.ndarray], num_objects: int
) -> list[dict[str, dict[str, float]]]:
    """Score each object of a sequence.

    Args:
        results (Iterable[np.ndarray]): Label maps (h, w) of the scored frames. The
            official protocol leaves out the first and the last frame.
        truths (Iterable[np.ndarray]): Annotations of the same frames. Pixels with the
            label :data:`VOID` are not scored.
        num_objects (int): Number of objects in the first annotation. Objects that
            appear later, under larger labels, are not scored.

    Returns:
        list[dict]: The :func:`statistics` ``J`` and ``F`` of each object.
    """
    values: dict[str, list[list[float]]] = {'J': [], 'F': []}
    for result, truth in zip(results, truths):
        if result.shape != truth.shape:
            raise ValueError(
                'Result and annotation must have one size, but got '
                f'{result.shape} and {truth.shape}.'
            )
        result = np.where(truth == VOID, VOID, result)
        pairs = [(result == k, truth == k) for k in range(1, num_objects + 1)]
        values['J'].append([jaccard(*pair) for pair in pairs])
        values['F'].append([boundary_f(*pair) for pair in pairs])
    return [
        {name: statistics(np.array(rows)[:, k]) for name, rows in values.items()}
        for k in range(num_objects)
    ]


def mean_scores(objects: Iterable[dict]) -> dict[str, float]:
    """Average results of :func:`object_scores` over all objects, in per cent.

    Returns:
        dict[str, float]: ``J&F``, the mean of the two means, and ``J mean``,
        ``J recall``, ``J decay``, ``F mean``, ``F recall`` and ``F decay``.
    """
    objects = list(objects)
    scores = {
        f'{name} {kind}': 100 * float(np.mean([o[name][kind] for o in objects]))
        for name in ('J', 'F')
        for kind in ('mean', 'recall', 'decay')
    }
    return {'J&F': (scores['J mean'] + scores['F mean']) / 2, **scores}
