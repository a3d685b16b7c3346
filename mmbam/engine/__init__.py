"""Hooks, optimizers, and starting a run."""

from . import hooks, optimizers  # noqa: F401
