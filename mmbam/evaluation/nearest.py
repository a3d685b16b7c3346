"""Exact nearest neighbours and near-duplicates, by products of blocks of embeddings."""

from __future__ import annotations

import torch
from mmengine.device import get_device
from mmengine.dist import all_reduce, get_dist_info
from torch import Tensor
from torch.nn.functional import normalize

from mmbam.utils.errors import InputError

from .features import gather_rows

# Rows of two blocks that are multiplied at a time: their product takes 256 MB.
ROWS, _COLUMNS = 1024, 65536


def nearest(
    queries: Tensor,
    features: Tensor,
    k: int,
    left_out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Find the rows with the largest cosine similarity to each query.

    Args:
        queries (Tensor): Features of shape (m, d).
        features (Tensor): Features to search, of shape (n, d).
        k (int): Number of neighbours.
        left_out (Tensor, optional): For each query a row that does not count, such as
            the query itself, or -1. Defaults to None.

    Returns:
        tuple[Tensor, Tensor]: Similarities and row numbers of shape (m, k), nearest
        first, on the CPU. There are fewer columns if there are fewer rows. NaN
        counts as the largest similarity.
    """
    require_finite(queries)
    device = get_device()
    parts = _unit(queries, device).split(ROWS)
    best = [(p.new_empty(len(p), 0), torch.empty(len(p), 0).long()) for p in parts]
    # Features in the outer loop, so that each moves to the device only once.
    for start, block in _blocks(features, _COLUMNS):
        unit = _unit(block, device)
        for number, part in enumerate(parts):
            similarities = part @ unit.T
            if left_out is not None:
                own = left_out[number * ROWS :][: len(part), None]
                same = own == torch.arange(start, start + len(block))
                similarities.masked_fill_(same.to(device), -torch.inf)
            near, index = similarities.topk(min(k, len(block)), dim=1)
            near = torch.cat([best[number][0], near], dim=1)
            rows = torch.cat([best[number][1], index.cpu() + start], dim=1)
            near, order = near.sort(dim=1, descending=True, stable=True)
            best[number] = near[:, :k], rows.gather(1, order.cpu())[:, :k]
    near, rows = (torch.cat(columns) for columns in zip(*best))
    return near.cpu(), rows


def near_duplicates(
    features: Tensor, threshold: float, most: int
) -> tuple[Tensor, Tensor, int]:
    """Find pairs of rows that are almost the same.

    Every pair is compared. Ranks share the work, and all of them get the result.

    Args:
        features (Tensor): Features of shape (n, d), the same on every rank.
        threshold (float): Cosine similarity from which on a pair counts.
        most (int): Number of pairs to return.

    Returns:
        tuple[Tensor, Tensor, int]: Similarities (p,) and row numbers (p, 2) of the most
        similar pairs, on the CPU, and the number of all pairs that count.
    """
    require_finite(features)
    if not -1 <= threshold <= 1:
        raise InputError(f'threshold must lie in -1..1, but got {threshold}.')
    device = get_device()
    rank, world_size = get_dist_info()
    kept = torch.empty(0), torch.empty(0, 2, dtype=torch.long)
    total = 0
    for number, (top, block) in enumerate(_blocks(features, ROWS)):
        if number % world_size != rank:
            continue
        block = _unit(block, device)
        # Each pair once: the second row behind the first.
        for left, others in _blocks(features[top:], _COLUMNS):
            left += top
            similarities = block @ _unit(others, device).T
            rows = torch.arange(top, top + len(block), device=device)[:, None]
            columns = torch.arange(left, left + len(others), device=device)
            alike = (similarities >= threshold) & (columns > rows)
            total += int(alike.sum())
            flat = similarities.masked_fill_(~alike, -torch.inf).flatten()
            found, index = flat.topk(min(most, int(alike.sum())))
            pairs = torch.stack([index // len(others), index % len(others)], 1)
            found, pairs = found.cpu(), pairs.cpu() + torch.tensor([top, left])
            kept = _most_similar(
                torch.cat([kept[0], found]), torch.cat([kept[1], pairs]), most
            )
    count = torch.tensor([total])
    all_reduce(count)
    found, pairs = (torch.cat(gather_rows(part)) for part in kept)
    return (*_most_similar(found, pairs, most), int(count))


def _most_similar(
    similarities: Tensor, pairs: Tensor, most: int
) -> tuple[Tensor, Tensor]:
    """The best pairs; of equal ones those whose rows come first."""
    order = sorted(
        range(len(pairs)), key=lambda i: (-float(similarities[i]), pairs[i].tolist())
    )[:most]
    return similarities[order], pairs[order]


def _blocks(features: Tensor, rows: int) -> list[tuple[int, Tensor]]:
    starts = range(0, len(features), rows)
    return [(start, features[start : start + rows]) for start in starts]


def _unit(features: Tensor, device: str) -> Tensor:
    return normalize(features.to(device).float(), dim=1)


def require_finite(features: Tensor) -> None:
    """Refuse embeddings that hold NaN or infinite values."""
    if not features.isfinite().all():
        raise InputError(
            'Neighbors need finite embeddings, but some hold NaN or infinite values: '
            'the network may have diverged.'
        )
