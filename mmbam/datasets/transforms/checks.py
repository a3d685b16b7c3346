"""Arguments of transforms, checked when they are given."""

from __future__ import annotations

from collections.abc import Sequence


def check_range(name: str, value: Sequence[float], low: float, high: float) -> tuple:
    """Return ``value`` as a (min, max) tuple within [low, high], or say what it is."""
    if len(value) != 2 or not low <= value[0] <= value[1] <= high:
        raise ValueError(
            f'{name} must be (min, max) with {low} <= min <= max <= {high}, got {value}'
        )
    return float(value[0]), float(value[1])


def check_probability(name: str, value: float) -> float:
    """Return ``value`` if it is a probability, or say what it is."""
    if not 0 <= value <= 1:
        raise ValueError(f'{name} must be a probability in [0, 1], got {value}')
    return value
