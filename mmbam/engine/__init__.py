"""What happens around training: hooks, precision, and starting a run."""

from . import hooks, optimizers  # noqa: F401
