"""Hooks, loops, optimizers, and starting a run."""

from . import hooks, loops, optimizers  # noqa: F401
