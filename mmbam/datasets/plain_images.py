"""The samples of a training set as plain resizes."""

from __future__ import annotations

import bisect
import itertools
from typing import Any

import numpy as np
import torch
from mmengine.dataset import BaseDataset
from torch import Tensor
from torch.utils.data import Dataset

from mmbam.utils.errors import InputError

from .leaves import walk_transforms
from .transforms.resize import resize_bicubic
from .transforms.seed_by_sample import SeedBySample


class PlainImages(Dataset):
    """Every image as ContrastiveCrop meets it, resized without cropping.

    The data sets' own lists of samples are read in place. Of each pipeline only the
    transforms in front of the one that uses boxes run, so that an image is decoded
    and turned exactly as it is in training.

    Args:
        leaves (list[BaseDataset]): Data sets, as :func:`leaf_datasets` finds them.
        size (int): Height and width of the resized images.
    """

    def __init__(self, leaves: list[BaseDataset], size: int) -> None:
        self.leaves = leaves
        self.size = size
        self.lengths = [len(leaf) for leaf in leaves]
        self._stops = list(itertools.accumulate(self.lengths))
        self._loaders = [_before_boxes(leaf) for leaf in leaves]

    def __len__(self) -> int:
        return self._stops[-1]

    def __getitem__(self, index: int) -> tuple[Tensor, str]:
        """An image as a uint8 BGR tensor (3, size, size), and what went wrong with it.

        An image that cannot be read is black and comes with a message, else the
        message is empty.
        """
        try:
            image = resize_bicubic(self.read(index), self.size, self.size)
            return torch.from_numpy(image).permute(2, 0, 1).contiguous(), ''
        except Exception as error:  # any decoder's: reported, and never worth a run
            black = torch.zeros(3, self.size, self.size, dtype=torch.uint8)
            return black, f'{self.name(index)}: {type(error).__name__}: {error}'

    def read(self, index: int) -> np.ndarray:
        """An image of uint8 in BGR, of the size it has when it is cropped."""
        number, sample = self._locate(index)
        results: Any = self.leaves[number].get_data_info(sample)
        for transform in self._loaders[number]:
            results = transform(results)
            if results is None:
                raise ValueError('the pipeline drops it')
        return results['img']

    def name(self, index: int) -> str:
        """Where an image comes from."""
        number, sample = self._locate(index)
        info = self.leaves[number].get_data_info(sample)
        return info.get('img_path', f'sample {index}')

    def _locate(self, index: int) -> tuple[int, int]:
        number = bisect.bisect_right(self._stops, index)
        return number, index - self._stops[number] + self.lengths[number]


def _before_boxes(leaf: BaseDataset) -> list[Any]:
    """The transforms in front of the first that uses boxes, or has one inside."""
    front = []
    for transform in leaf.pipeline.transforms:
        if any(hasattr(inner, 'set_boxes') for inner in walk_transforms(transform)):
            return front
        # What follows draws nothing, and the caller's random state is not ours.
        if not isinstance(transform, SeedBySample):
            front.append(transform)
    raise InputError(
        f'No transform of {type(leaf).__name__}.pipeline uses boxes: crop with '
        'mmbam.ContrastiveCrop, or leave out mmbam.LocalizeHook.'
    )
