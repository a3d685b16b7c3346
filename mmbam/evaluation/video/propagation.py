"""Propagation of the first frame's labels through a video.

The protocol is that of DINO (Caron et al., ICCV 2021): a token's soft label is the
weighted mean over its nearest neighbours in the first frame and in the T frames before
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mmbam.utils.errors import InputError

from .neighbours import local_neighbours


def propagate_labels(
    features: Iterable[Tensor],
    labels: Tensor,
    last: Sequence[int] = (7,),
    k: int = 5,
    radius: int = 12,
    temperature: float = 0.1,
) -> Iterator[dict[int, Tensor]]:
    """Propagate soft labels through a video.

    Neighbours do not depend on labels, and the k nearest of several frames are among
    the k nearest of each. So each frame is searched once for all numbers of context
    frames. At most ``max(last) + 1`` frames are kept in memory.

    Args:
        features (Iterable[Tensor]): Feature map of each frame in order, of shape
            (c, h, w).
        labels (Tensor): One-hot or soft labels of the first frame, of shape
            (classes, h, w).
        last (Sequence[int]): Numbers T of preceding frames to use as context besides
            the first one. Defaults to (7,).
        k (int): Number of neighbours over all context frames. Defaults to 5.
        radius (int): See :func:`local_neighbours`. Defaults to 12.
        temperature (float): Temperature of the weights ``exp(cosine / temperature)``,
            which are normalized over the k neighbours. Defaults to 0.1.

    Yields:
        dict[int, Tensor]: Soft labels (classes, h, w) by T, for each frame after the
        first.
    """
    check_protocol(last, k, radius, temperature)
    return _propagate(features, labels, last, k, radius, temperature)


def check_protocol(
    last: Sequence[int], k: int = 5, radius: int = 12, temperature: float = 0.1
) -> None:
    """Raise an error if an argument of :func:`propagate_labels` is wrong."""
    if not last or min(last) < 1 or len(set(last)) < len(last):
        raise InputError(
            'The numbers of last frames must be different and at least 1, but got '
            f'{list(last)}.'
        )
    if k < 1 or radius < 0 or not 0 < temperature < math.inf:
        raise InputError(
            'k must be at least 1, radius at least 0 and temperature a finite number '
            'above 0, but got '
            f'k={k}, radius={radius}, temperature={temperature}.'
        )


def hard_labels(soft: Tensor, size: tuple[int, int]) -> Tensor:
    """Turn soft labels of tokens into one label per pixel.

    Soft labels are upsampled bilinearly, each class is scaled to the range [0, 1] over
    the frame, which helps small objects, and the largest wins.

    Args:
        soft (Tensor): Soft labels of shape (classes, h, w).
        size (tuple[int, int]): Height and width of the result, of uint8.
    """
    soft = F.interpolate(soft[None], size, mode='bilinear', align_corners=False)[0]
    low, high = soft.flatten(1).aminmax(dim=1)
    span = (high - low)[:, None, None]
    # A constant class, such as one that is nowhere, cannot be scaled.
    scaled = torch.where(span > 0, (soft - low[:, None, None]) / span, soft)
    # Pixels half-way between two tokens are exact ties, which must not depend on the
    # last bits: they go to the smaller label.
    return (scaled * 2**16).round().argmax(dim=0).to(torch.uint8)


def _propagate(
    features: Iterable[Tensor],
    labels: Tensor,
    last: Sequence[int],
    k: int,
    radius: int,
    temperature: float,
) -> Iterator[dict[int, Tensor]]:
    longest = max(last)
    classes, h, w = labels.shape
    tokens = None
    for frame, feature in enumerate(features):
        if feature.shape[1:] != (h, w):
            raise ValueError(
                f'Every frame must have the grid of the labels, {h} x {w}, but frame '
                f'{frame} has {feature.shape[1]} x {feature.shape[2]}.'
            )
        feature = F.normalize(feature.float(), dim=0).permute(1, 2, 0).contiguous()
        # The first frame stays at index 0; the others share a ring buffer behind it.
        place = 0 if frame == 0 else 1 + (frame - 1) % longest
        if tokens is None:
            tokens = feature.new_empty(longest + 1, *feature.shape)
            flat = labels.to(feature).flatten(1).T
            known = {t: flat.new_empty(longest + 1, h * w, classes) for t in last}
        soft = {t: flat for t in last}
        if frame > 0:
            used = min(frame, longest + 1)
            nearest = local_neighbours(feature, tokens[:used], k, radius)
            for t in last:
                before = range(max(1, frame - t), frame)
                context = [0, *(1 + (f - 1) % longest for f in before)]
                soft[t] = average_labels(*nearest, known[t], context, k, temperature)
            yield {t: s.T.unflatten(1, (h, w)) for t, s in soft.items()}
        tokens[place] = feature
        for t in last:
            known[t][place] = soft[t]


def average_labels(
    similarities: Tensor,
    indices: Tensor,
    labels: Tensor,
    context: list[int],
    k: int = 5,
    temperature: float = 0.1,
) -> Tensor:
    """Average the labels of the k nearest tokens of several frames.

    Args:
        similarities (Tensor): First result of :func:`local_neighbours` for n frames.
        indices (Tensor): Second result of :func:`local_neighbours`.
        labels (Tensor): Soft labels of at least n frames, (n, h * w, classes).
        context (list[int]): Frames to use.
        k (int): Number of neighbours over these frames. Defaults to 5.
        temperature (float): See :func:`propagate_labels`. Defaults to 0.1.

    Returns:
        Tensor: Soft labels of shape (h * w, classes).
    """
    num_tokens = labels.shape[1]
    frames = torch.tensor(context, device=indices.device)
    # Indices into (frame, token); the candidates of one token from all frames in a row.
    places = (indices[context] + num_tokens * frames[:, None, None]).transpose(0, 1)
    near = similarities[context].transpose(0, 1).flatten(1)
    near, best = near.topk(k, dim=1)
    places = places.flatten(1).gather(1, best)
    weights = (near / temperature).softmax(dim=1)
    return torch.einsum('qk,qkc->qc', weights, labels.flatten(0, 1)[places])
