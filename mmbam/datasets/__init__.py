"""Images, their views and their boxes."""

from . import transforms  # noqa: F401
from .boxes import BoxTable
from .plain_images import PlainImages

__all__ = ['BoxTable', 'PlainImages']
