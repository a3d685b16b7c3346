"""Checks of the arguments of transforms."""

from __future__ import annotations

from collections.abc import Sequence

from mmbam.datasets.bands import RGB


def check_range(name: str, value: Sequence[float], low: float, high: float) -> tuple:
    """Return ``value`` as (min, max), or raise if it is not a range in [low, high]."""
    if not _is_pair(value) or not low <= value[0] <= value[1] <= high:
        raise ValueError(
            f'{name} must be (min, max) with {low} <= min <= max <= {high}, got {value}'
        )
    return float(value[0]), float(value[1])


def check_probability(name: str, value: float) -> float:
    """Return ``value``, or raise if it is not a probability."""
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f'{name} must be a probability in [0, 1], got {value}')
    return value


def check_channels(value: int | str) -> int | str:
    """Return ``value``, or raise if it is neither a number of bands nor ``'rgb'``."""
    if value != RGB and (type(value) is not int or value < 1):
        raise ValueError(
            f"channels must be 'rgb' or a number of bands of at least 1, got {value!r}"
        )
    return value


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and len(value) == 2
        and all(isinstance(x, (int, float)) for x in value)
    )
