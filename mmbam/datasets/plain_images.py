"""The samples of a training set as plain resizes."""

from __future__ import annotations

import bisect
import itertools
from typing import Any

import mmcv
import numpy as np
import torch
from mmengine.dataset import BaseDataset
from torch import Tensor
from torch.utils.data import Dataset

from .leaves import walk_transforms
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
        number = bisect.bisect_right(self._stops, index)
        sample = index - self._stops[number] + self.lengths[number]
        results: Any = self.leaves[number].get_data_info(sample)
        name = results.get('img_path', f'sample {index}')
        try:
            for transform in self._loaders[number]:
                results = transform(results)
                if results is None:
                    raise ValueError('the pipeline drops it')
            return self._resize(results['img']), ''
        except Exception as error:  # any decoder's: reported, and never worth a run
            black = torch.zeros(3, self.size, self.size, dtype=torch.uint8)
            return black, f'{name}: {type(error).__name__}: {error}'

    def _resize(self, image: np.ndarray) -> Tensor:
        # Pillow's bicubic filter widens with the scale; OpenCV's would alias.
        image = mmcv.imresize(
            image, (self.size, self.size), interpolation='bicubic', backend='pillow'
        )
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))


def _before_boxes(leaf: BaseDataset) -> list[Any]:
    """The transforms in front of the first that uses boxes, or has one inside."""
    front = []
    for transform in leaf.pipeline.transforms:
        if any(hasattr(inner, 'set_boxes') for inner in walk_transforms(transform)):
            return front
        # What follows draws nothing, and the caller's random state is not ours.
        if not isinstance(transform, SeedBySample):
            front.append(transform)
    raise ValueError(
        f'No transform of {type(leaf).__name__}.pipeline uses boxes: crop with '
        'mmbam.ContrastiveCrop, or leave out mmbam.LocalizeHook.'
    )
