"""What mmengine's logger writes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mmengine.logging import MMLogger


@contextmanager
def only_warnings() -> Iterator[None]:
    """Let mmengine's logger write warnings and errors alone."""
    logger = MMLogger.get_current_instance()
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(level)
