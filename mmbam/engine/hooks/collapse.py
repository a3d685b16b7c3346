"""When a run has collapsed, and what to say about it."""

from __future__ import annotations

import math


class CollapseAlarm:
    """Watches the health signs of a run and decides when they mean collapse.

    A sign must be there at ``patience`` checks in a row. A loss that is not finite
    never comes back, so one check is enough for it.

    Args:
        patience (int): Checks in a row at which a sign must be seen.
        grace (int): Iterations during which features may still be constant or uniform,
            as those of a random network are.
        max_similarity (float): Features are constant when other pairs are on average
            more similar than this.
        min_gap (float): Features are uniform when positive pairs are on average less
            than this more similar than other pairs.
    """

    SIGNS = {
        'loss': 'the loss is not finite',
        'gradient': 'the gradients are not finite',
        'constant': 'features are constant: different images are as good as equal',
        'uniform': (
            'features are uniform: views of one image are no more alike than those of '
            'different images'
        ),
    }

    def __init__(
        self, patience: int, grace: int, max_similarity: float, min_gap: float
    ) -> None:
        self.patience = patience
        self.grace = grace
        self.max_similarity = max_similarity
        self.min_gap = min_gap
        self.since: dict[str, int] = {}
        self.checks: dict[str, int] = {}

    def check(
        self,
        iteration: int,
        loss: float,
        grad_norm: float | None,
        positive: float,
        other: float,
    ) -> str | None:
        """Look at the signs of one iteration.

        Args:
            iteration (int): Its number.
            loss (float): The loss.
            grad_norm (float, optional): Norm of all gradients; None if not known.
            positive (float): Mean similarity of positive pairs.
            other (float): Mean similarity of other pairs.

        Returns:
            str | None: The sign (a key of ``SIGNS``) that has been seen for long
            enough, or None if all is well.
        """
        early = iteration <= self.grace
        constant = other > self.max_similarity
        present = dict(
            loss=not math.isfinite(loss),
            gradient=grad_norm is not None and not math.isfinite(grad_norm),
            constant=constant and not early,
            uniform=positive - other < self.min_gap and not constant and not early,
        )
        for sign, seen in present.items():
            if not seen:
                self.since.pop(sign, None)
                self.checks[sign] = 0
                continue
            self.since.setdefault(sign, iteration)
            self.checks[sign] = self.checks.get(sign, 0) + 1
            if sign == 'loss' or self.checks[sign] >= self.patience:
                return sign
        return None

    def describe(self, sign: str, tau_b: float | None, lr: float, images: int) -> str:
        """Say which sign was seen, since when, and what usually helps.

        Args:
            sign (str): What :meth:`check` returned.
            tau_b (float, optional): Of the loss, None if it has none.
            lr (float): The present learning rate.
            images (int): Images of a batch over all ranks.
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
