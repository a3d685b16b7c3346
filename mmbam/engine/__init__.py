"""What happens around training: hooks, precision, and starting a run."""

from . import autocast, hooks, optimizers  # noqa: F401
