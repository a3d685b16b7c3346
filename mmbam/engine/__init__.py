"""What happens around training: hooks."""

from . import hooks  # noqa: F401
