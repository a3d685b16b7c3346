"""When a run has collapsed, and what to say about it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Signs:
    """Health signs of one iteration, over all ranks.

    Args:
        loss (float): The loss.
        uniform_loss (float, optional): The loss of a network that attends to all images
            alike: the logarithm of the number of columns, for any targets. None for a
            loss without attention.
        positive (float): Mean similarity of the latents of two views of one image.
        other (float): Mean similarity of the latents of different images.
        sharpness (float, optional): Entropy of A minus that of B, in nats. None if
            unknown, or if targets do not come from the network itself.
        grad_norm (float, optional): Norm of all gradients; None if unknown.
    """

    loss: float
    uniform_loss: float | None
    positive: float
    other: float
    sharpness: float | None = None
    grad_norm: float | None = None


class CollapseAlarm:
    """Watches the health signs of a run and decides when they mean collapse.

    A sign must be there at ``patience`` checks in a row. A loss that is not finite
    never recovers, so one check is enough for it.

    Batch norm at the end of the projector keeps latents from becoming constant, and so
    hides that sign. Two signs of attention still show it: a network that guesses, and
    targets that hold no more than the network knows. With the latter a tiny network
    behind batch norm went on learning, but less than with sharper targets.

    Args:
        patience (int): Number of checks in a row that must show a sign.
        grace (int): Number of first iterations in which only the loss and the gradients
            count: features of a random network are nearly constant, and behind batch
            norm its loss is above that of guessing.
        max_similarity (float): Mean similarity of other pairs above which features are
            constant.
        min_gap (float): Difference between the mean similarities of positive and of
            other pairs below which features are uniform.
        min_sharpness (float): Difference between the entropies of A and B, in nats,
            below which targets are empty.
    """

    SIGNS = {
        'loss': 'the loss is not finite',
        'gradient': 'the gradients are not finite',
        'constant': 'features are constant: different images are as good as equal',
        'uniform': (
            'features are uniform: views of one image are no more alike than those of '
            'different images'
        ),
        'guessing': (
            'attention is as good as guessed: the loss is not below that of attending '
            'to all images alike'
        ),
        'empty': (
            'targets are empty: the balanced attention B is no sharper than the '
            'attention A that learns from it'
        ),
    }

    def __init__(
        self,
        patience: int,
        grace: int,
        max_similarity: float,
        min_gap: float,
        min_sharpness: float,
    ) -> None:
        self.patience = patience
        self.grace = grace
        self.max_similarity = max_similarity
        self.min_gap = min_gap
        self.min_sharpness = min_sharpness
        self.since: dict[str, int] = {}
        self.checks: dict[str, int] = {}

    def check(self, iteration: int, signs: Signs) -> str | None:
        """Look at the signs of one iteration.

        Args:
            iteration (int): Its number.
            signs (Signs): What it shows.

        Returns:
            str | None: The sign (a key of ``SIGNS``) that has been seen for long
            enough, or None if all is well.
        """
        for sign, seen in self._present(iteration, signs).items():
            if not seen:
                self.since.pop(sign, None)
                self.checks[sign] = 0
                continue
            self.since.setdefault(sign, iteration)
            self.checks[sign] = self.checks.get(sign, 0) + 1
        ripe = [
            sign
            for sign in self.SIGNS
            if self.checks[sign] >= (1 if sign == 'loss' else self.patience)
        ]
        return ripe[0] if ripe else None

    def _present(self, iteration: int, signs: Signs) -> dict[str, bool]:
        late = iteration > self.grace
        grad_norm, sharpness = signs.grad_norm, signs.sharpness
        uniform_loss = math.inf if signs.uniform_loss is None else signs.uniform_loss
        constant = signs.other > self.max_similarity
        return dict(
            loss=not math.isfinite(signs.loss),
            gradient=grad_norm is not None and not math.isfinite(grad_norm),
            constant=late and constant,
            uniform=late
            and not constant
            and signs.positive - signs.other < self.min_gap,
            guessing=late and signs.loss >= uniform_loss,
            empty=late and sharpness is not None and sharpness < self.min_sharpness,
        )

    def describe(self, sign: str, tau_b: float | None, lr: float, images: int) -> str:
        """Say which sign was seen, since when, and what usually helps.

        Args:
            sign (str): What :meth:`check` returned.
            tau_b (float, optional): Temperature of the targets; None if there is none.
            lr (float): The current learning rate.
            images (int): Number of images in the batch of all ranks.
        """
        rate = f'a lower learning rate (now {lr:.3g}) or a longer warm-up'
        if sign in ('loss', 'gradient'):
            helps = [rate, 'gradient clipping', 'bfloat16 in place of float16']
        else:
            helps = [rate, f'a larger batch (now {images} images)']
            if tau_b is not None:
                helps.insert(
                    0,
                    f'a lower tau_b (now {tau_b:.3g}; below 0.075 for ResNet and 0.1 '
                    'for ViT) with balancing on',
                )
        return (
            f'Collapse: {self.SIGNS[sign]}, since iteration {self.since[sign]}. What '
            f'usually helps: {"; ".join(helps)}.'
        )
