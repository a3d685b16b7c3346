"""Argument types that the benchmarks share."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """Parse an integer of at least 1 (a ``type`` for argparse)."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f'must be an integer of at least 1, got {text!r}'
        )
    return int(text)
