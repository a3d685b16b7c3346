"""S and A: similarities of latents, positive mask, attention (paper, Sec. 3.1-3.2).

Rows and columns are ordered view by view: row ``v * n + i`` is view v of image i. A
matrix of similarities of one view against the targets has shape (n, G, C): G blocks of
C columns that are normalised separately. G = 1 and C = T * N is the paper's global
normalisation, G = T and C = N normalises every pair of views on its own.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Stands for minus infinity: exp() of it is zero at any temperature below 100, and zero
# times it is zero, where zero times infinity is not a number.
EXCLUDED = -1e4

# exp(s / tau) is computed as 2 ** (s / (tau * LN_2)): on a CPU torch.exp2 takes less
# than half the time of torch.exp.
LN_2 = math.log(2)

POSITIVE_MASKS = ('exclude', 'zero', None)

# Similarities worked on at once: few enough for a CPU's cache, or enough for a GPU.
CPU_CHUNK = 2**19
GPU_CHUNK = 2**22


def rows_at_once(num_columns: int, device: torch.device) -> int:
    """How many rows of similarities to work on at once."""
    chunk = CPU_CHUNK if device.type == 'cpu' else GPU_CHUNK
    return max(1, chunk // num_columns)


def rows_by_core(x: Tensor) -> Tensor:
    """Rows (M, C) as (P, M / P, C), a block for each of a CPU's P threads.

    In a batch of products every core keeps to its own rows, as in all that is done with
    single elements. One product with a vector, or of a few rows, gives every core some
    of the columns instead, and then others' caches hold what it needs next.

    P is 1 if the rows cannot be shared evenly, and for other devices.
    """
    threads = torch.get_num_threads() if x.device.type == 'cpu' else 1
    return x.unflatten(0, (threads if len(x) % threads == 0 else 1, -1))


def mask_positives(
    s: Tensor, first_row: int, n: int, first_column: int, num_blocks: int, value: float
) -> None:
    """Overwrite the similarities of two views of one image, in place.

    Args:
        s (Tensor): Similarities of some of this rank's consecutive rows against
            ``num_blocks`` views of all images, shape (rows, num_blocks * N).
        first_row (int): Index of the first of these rows, over all views.
        n (int): Number of images on this rank.
        first_column (int): Number of images on the ranks before this one.
        num_blocks (int): Number of target views.
        value (float): What stands there afterwards.
    """
    start = 0
    while start < len(s):  # one view after the other
        image = (first_row + start) % n
        view = s[start : start + n - image]
        columns = slice(first_column + image, first_column + image + len(view))
        blocks = view.unflatten(1, (num_blocks, -1))[:, :, columns]
        blocks.diagonal(dim1=0, dim2=2).fill_(value)
        start += len(view)


def log_attention(s: Tensor, tau: float) -> Tensor:
    """Logarithm of A, the row soft-max of similarities (paper, Eq. 1).

    Args:
        s (Tensor): Similarities, shape (..., C).
        tau (float): Temperature of the soft-max.

    Returns:
        Tensor: ``log A``, of the shape of ``s``.
    """
    return torch.log_softmax(s / tau, dim=-1)
