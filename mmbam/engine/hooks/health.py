"""What the curves of a run say at the moment, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mmengine.dist import get_world_size
from mmengine.runner import Runner

from mmbam.models.teacher import FrozenTeacher
from mmbam.utils.model import unwrap

from .collapse import Signs, health
from .signs import uniform_entropies

#: Steps over which values are averaged.
WINDOW = 20
MEANINGS = {
    'healthy': 'views predict which other images the targets attend to',
    'not learning yet': (
        'its loss is no better than saying the same of all images, as at each start'
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
    """Read the health of a run, or None before its first step or without A and B.

    Args:
        runner (Runner): A run, in or after an iteration.
    """
    model: Any = unwrap(runner.model)
    module: Any = getattr(getattr(model, 'head', None), 'loss_module', None)
    scalars = runner.message_hub.log_scalars
    keys = [f'train/{name}' for name in ('loss', 'entropy_a', 'entropy_b')]
    if not hasattr(module, 'positive_mask') or any(key not in scalars for key in keys):
        return None
    loss, a, b = (float(scalars[key].mean(WINDOW)) for key in keys)
    loader: Any = runner.train_dataloader
    images = (loader.batch_size or 1) * get_world_size()
    uniform_a, uniform_b = uniform_entropies(module, images)
    signs = Signs()
    if not isinstance(getattr(model, 'teacher', None), FrozenTeacher):
        signs = Signs(uniform_a - a, uniform_b - b, a - b)
    return Health(loss, a, b, uniform_a, health(signs, uniform_a - loss))
