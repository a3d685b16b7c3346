"""Images without labels: those of a folder, and single files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmengine.dataset import BaseDataset, Compose
from torch.utils.data import Dataset

from mmbam.datasets.folder import dataset_of
from mmbam.utils.errors import InputError

from .loaders import build_dataset


def images_in(folder: str | Path, pipeline: list[dict]) -> BaseDataset:
    """Build the data set of all images in a folder, or in shards.

    Args:
        folder (str | Path): A folder of images or of shards.
        pipeline (list[dict]): Transforms of its images.
    """
    return build_dataset(dataset_of(folder, pipeline=pipeline))


def image_names(dataset: BaseDataset, folder: str | Path) -> list[str]:
    """Paths of a data set's images, in order, as seen from a folder."""
    paths = [
        dataset.get_data_info(index).get('img_path', f'sample {index}')
        for index in range(len(dataset))
    ]
    front = os.path.join(folder, '')
    names = [path.removeprefix(front) for path in paths]
    broken = [name for name in names if '\n' in name]
    if broken:
        raise InputError(f'A file must have no line break in its name: {broken[0]!r}.')
    return names


class ImageFiles(Dataset):
    """Single image files, seen through a pipeline.

    Args:
        paths (Sequence[str | Path]): The files.
        pipeline (list[dict]): Transforms of the images.
    """

    def __init__(self, paths: Sequence[str | Path], pipeline: list[dict]) -> None:
        for path in paths:
            if not os.path.isfile(path):
                raise InputError(f'There is no image {str(path)!r}.')
        self.paths = [str(path) for path in paths]
        self.pipeline = Compose(pipeline)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.pipeline(dict(img_path=self.paths[index], sample_idx=index))
