"""Most similar tokens of other frames within a window."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

# Rows and columns of a tile, and frames compared at a time. A larger tile compares more
# pairs that are too far apart, a smaller one copies more. One tile fits into the cache.
_TILE = (8, 11)
_FRAMES = 8


def local_neighbours(
    query: Tensor, context: Tensor, k: int = 5, radius: int = 12
) -> tuple[Tensor, Tensor]:
    """Find the ``k`` most similar tokens within a window, frame by frame.

    The frame is cut into tiles, and each tile is compared with the part of a context
    frame that its windows reach. No matrix of all pairs of tokens is formed.

    Args:
        query (Tensor): Tokens of one frame, of shape (h, w, c) and norm 1.
        context (Tensor): Tokens of n other frames, of shape (n, h, w, c) and norm 1.
        k (int): Number of neighbours to keep in each context frame. Defaults to 5.
        radius (int): Number of rows and columns that a token's window reaches to each
            side. Defaults to 12.

    Returns:
        tuple[Tensor, Tensor]: Cosine similarities, and indices from 0 to h * w - 1,
        both of shape (n, h * w, k). If a window has fewer than k tokens, the remaining
        entries have similarity -inf and index 0.
    """
    h, w, _ = query.shape
    n = len(context)
    similarities = query.new_full((n, h, w, k), -torch.inf)
    indices = torch.zeros((n, h, w, k), dtype=torch.long, device=query.device)
    for columns, near_columns in _tiles(w, _TILE[1], radius):
        for frames in torch.arange(n).split(_FRAMES):
            frames = slice(int(frames[0]), int(frames[-1]) + 1)
            # One contiguous copy for all tiles of the strip.
            strip = context[frames, :, near_columns].contiguous()
            for rows, near_rows in _tiles(h, _TILE[0], radius):
                values, places = _compare(
                    query[rows, columns].flatten(0, 1),
                    strip[:, near_rows].flatten(1, 2),
                    _outside(rows, near_rows, columns, near_columns, radius, query),
                    k,
                )
                width = near_columns.stop - near_columns.start
                places = (near_rows.start + places // width) * w + (
                    near_columns.start + places % width
                )
                part = frames, rows, columns, slice(values.shape[-1])
                shape = similarities[part].shape
                similarities[part] = values.view(shape)
                indices[part] = places.view(shape)
    indices[similarities == -torch.inf] = 0
    return similarities.flatten(1, 2), indices.flatten(1, 2)


def _tiles(length: int, tile: int, radius: int) -> Iterator[tuple[slice, slice]]:
    """Split an axis into parts, each with the range that its windows reach."""
    for start in range(0, length, tile):
        stop = min(start + tile, length)
        near = slice(max(0, start - radius), min(length, stop + radius))
        yield slice(start, stop), near


def _compare(
    query: Tensor, keys: Tensor, outside: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Find the best keys of each query; -inf excludes keys outside its window."""
    query = query.expand(len(keys), -1, -1)
    block = torch.baddbmm(outside, query, keys.transpose(1, 2))
    return block.topk(min(k, block.shape[-1]), dim=-1)


def _outside(
    rows: slice,
    near_rows: slice,
    columns: slice,
    near_columns: slice,
    radius: int,
    like: Tensor,
) -> Tensor:
    """Return 0 for pairs (query, key) of a tile within the radius, -inf for others."""

    def far(part: slice, near: slice) -> Tensor:
        a, b = (torch.arange(s.start, s.stop, device=like.device) for s in (part, near))
        return (a[:, None] - b).abs() > radius

    beyond = (
        far(rows, near_rows)[:, None, :, None] | far(columns, near_columns)[:, None]
    )
    beyond = beyond.flatten(2).flatten(0, 1)
    return torch.zeros_like(beyond, dtype=like.dtype).masked_fill_(beyond, -torch.inf)
