"""The images of a training set, resized without cropping."""

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

from .bands import RGB
from .leaves import walk_transforms
from .transforms.resize import resize_bicubic


class PlainImages(Dataset):
    """The images of a training set as its crops see them, resized as a whole.

    Only the transforms before the one that uses boxes run, so an image is decoded and
    turned exactly as in training.

    Args:
        leaves (list[BaseDataset]): Data sets, see :func:`leaf_datasets`.
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
        """Return an image as a tensor (bands, size, size), and an error.

        The image is BGR of uint8, unless the pipeline loads other bands.

        The error is an empty string, or says why the image cannot be read. The image
        is black then.
        """
        try:
            image = resize_bicubic(self.read(index), self.size, self.size)
            return torch.from_numpy(image).permute(2, 0, 1).contiguous(), ''
        except Exception as error:  # the caller reports it; the run goes on
            number, _ = self._locate(index)
            channels = [getattr(t, 'channels', RGB) for t in self._loaders[number]]
            bands = next((int(n) for n in channels if n != RGB), 3)
            black = torch.zeros(bands, self.size, self.size, dtype=torch.uint8)
            return black, f'{self.name(index)}: {type(error).__name__}: {error}'

    def read(self, index: int) -> np.ndarray:
        """Read an image in the size that the crop sees, BGR of uint8 by default."""
        number, sample = self._locate(index)
        results: Any = self.leaves[number].get_data_info(sample)
        for transform in self._loaders[number]:
            results = transform(results)
            if results is None:
                raise ValueError('the pipeline drops it')
        return results['img']

    def name(self, index: int) -> str:
        """Return the path of an image, or the number of the sample."""
        number, sample = self._locate(index)
        info = self.leaves[number].get_data_info(sample)
        return info.get('img_path', f'sample {index}')

    def _locate(self, index: int) -> tuple[int, int]:
        number = bisect.bisect_right(self._stops, index)
        return number, index - self._stops[number] + self.lengths[number]


def _before_boxes(leaf: BaseDataset) -> list[Any]:
    """Return the transforms before the first that uses boxes, itself or inside it."""
    front: list[Any] = []
    for transform in leaf.pipeline.transforms:
        if any(hasattr(inner, 'set_boxes') for inner in walk_transforms(transform)):
            return front
        front.append(transform)
    raise InputError(
        f'No transform of {type(leaf).__name__}.pipeline uses boxes: crop with '
        'mmbam.ContrastiveCrop, or leave out mmbam.LocalizeHook.'
    )
