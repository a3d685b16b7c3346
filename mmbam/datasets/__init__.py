"""Images, their views and their boxes."""

from . import transforms  # noqa: F401
from .boxes import BoxTable
from .folder import FolderDataset, dataset_of
from .plain_images import PlainImages
from .shards.dataset import ShardDataset

__all__ = ['BoxTable', 'FolderDataset', 'PlainImages', 'ShardDataset', 'dataset_of']
