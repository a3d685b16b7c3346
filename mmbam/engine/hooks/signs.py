"""Health signs of a batch over all ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from mmengine.dist import all_reduce, get_world_size
from torch import Tensor, nn

from mmbam.evaluation import rankme
from mmbam.evaluation.features import gather_rows

# Rows of latents whose effective rank is computed.
SAMPLES = 1024


def effective_rank(features: Tensor) -> float:
    """RankMe of the features of all ranks."""
    rows = torch.cat(gather_rows(features[:SAMPLES].contiguous()))
    return rankme(rows[:SAMPLES])


def over_ranks(
    outputs: Mapping[str, Tensor], num_images: int
) -> tuple[float, tuple[float, float] | None, int]:
    """Loss, entropies of A and B, and images in the batch of all ranks.

    The loss is not finite if that of one rank is not. Models without these entropies
    have None in their place.
    """
    names = ('entropy_a', 'entropy_b')
    known = all(name in outputs for name in names)
    # The loss is a mean over ranks, whatever each holds; entropies are means over rows.
    total = torch.tensor(
        [outputs['loss'].item(), num_images]
        + [num_images * outputs[name].item() for name in names if known],
        dtype=torch.float64,
    )
    all_reduce(total)
    loss, images, *sums = total.tolist()
    entropies = (sums[0] / images, sums[1] / images) if known else None
    return loss / get_world_size(), entropies, int(images)


def uniform_entropies(loss_module: nn.Module, images: int) -> tuple[float, float]:
    """Entropies of A and of B when every row of BAM's is the same everywhere.

    The first is also the loss of such an A, for any targets.
    """
    module: Any = loss_module
    excluded = module.positive_mask == 'exclude'
    views = module.num_target_views if module.global_norm else 1
    columns = views * (images - excluded)
    kept = min(module.top_k or columns, columns)
    return math.log(columns), math.log(kept)
