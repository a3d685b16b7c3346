"""Health signs of a batch over all ranks, and what the curves say in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from mmengine.dist import all_reduce, get_world_size
from mmengine.runner import Runner
from torch import Tensor, nn

from mmbam.evaluation import rankme
from mmbam.evaluation.features import gather_rows
from mmbam.models.teacher import FrozenTeacher
from mmbam.utils.model import unwrap

from .collapse import Signs, health

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


def entropy_signs(module: nn.Module, images: int, a: float, b: float) -> Signs:
    """Signs from the entropies of A and B of BAM's loss."""
    uniform_a, uniform_b = uniform_entropies(module, images)
    return Signs(uniform_a - a, uniform_b - b, a - b)


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


#: Steps over which values are averaged.
WINDOW = 20
MEANINGS = {
    'healthy': 'views predict which other images the targets attend to',
    'not learning yet': (
        'its loss is no better than saying the same of all images, as at each start; '
        'if it stays so, more epochs or a larger batch usually help'
    ),
    'no signal': ('the targets teach nothing; an alarm follows if this lasts'),
}


@dataclass
class Health:
    """Means over the last steps of the first rank.

    Args:
        loss (float): The loss.
        entropy_a (float): Mean entropy of the rows of A, in nats.
        entropy_b (float): Mean entropy of the rows of B, in nats.
        uniform (float): Entropy of A, and loss, if nothing is known.
        word (str): A key of ``MEANINGS``.
    """

    loss: float
    entropy_a: float
    entropy_b: float
    uniform: float
    word: str


def run_health(runner: Runner) -> Health | None:
    """Read the health of a run, or None before its first step or without A and B."""
    model: Any = unwrap(runner.model)
    module: Any = getattr(getattr(model, 'head', None), 'loss_module', None)
    scalars = runner.message_hub.log_scalars
    keys = [f'train/{name}' for name in ('loss', 'entropy_a', 'entropy_b')]
    if not hasattr(module, 'positive_mask') or any(key not in scalars for key in keys):
        return None
    loss, a, b = (float(scalars[key].mean(WINDOW)) for key in keys)
    loader: Any = runner.train_dataloader
    images = (loader.batch_size or 1) * get_world_size()
    uniform, _ = uniform_entropies(module, images)
    signs = Signs()
    if not isinstance(getattr(model, 'teacher', None), FrozenTeacher):
        signs = entropy_signs(module, images, a, b)
    return Health(loss, a, b, uniform, health(signs, uniform - loss))
