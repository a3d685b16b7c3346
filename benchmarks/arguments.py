"""Types of the benchmarks' arguments."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A whole number from 1 on, as the ``type`` of an argument of argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f'must be a whole number of at least 1, but got {text!r}'
        )
    return int(text)
