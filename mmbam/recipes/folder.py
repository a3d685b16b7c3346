"""What a recipe must know of a folder of images: how many there are, and how large."""

from __future__ import annotations

import io
import statistics
from dataclasses import dataclass
from pathlib import Path

from mmengine.registry import DATASETS

from mmbam.datasets.decoding import open_image
from mmbam.datasets.folder import dataset_of
from mmbam.utils.errors import InputError

from .numbers import SAMPLED


@dataclass
class ImageFolder:
    """A folder of images or of shards.

    Args:
        root (str): Absolute path.
        count (int): Number of files that are called images.
        short_side (int): Median of the shorter sides, in pixels.
        largest (int): Largest number of pixels of an image.
        mixed (bool): Whether the images differ in size.
        unreadable (int): Number of the images looked at that cannot be opened.
    """

    root: str
    count: int
    short_side: int
    largest: int = 0
    mixed: bool = False
    unreadable: int = 0

    @property
    def dataset(self) -> dict:
        """Config of the data set, without a pipeline."""
        return dataset_of(self.root)


def measure(path: str | Path) -> ImageFolder:
    """Count the images of a folder, and look at the sizes of some.

    Args:
        path (str | Path): A folder of images, whose sub-folders are searched as well,
            or of shards.

    Raises:
        InputError: There is no such folder, or no image in it that can be opened.
    """
    folder = Path(path)
    if not folder.is_dir():
        what = 'is no folder' if folder.exists() else 'does not exist'
        raise InputError(
            f'IMAGES must be a folder of images, but {str(path)!r} {what}.'
        )
    root = str(folder.resolve())
    dataset = DATASETS.build(dataset_of(root, pipeline=[]))
    count = len(dataset)
    step = max(1, count // SAMPLED)
    sizes, unreadable = [], 0
    for index in range(0, count, step):
        try:
            with open_image(_file(dataset.get_data_info(index))) as image:
                sizes.append(image.size)
        except Exception:  # decoders raise errors of many types
            unreadable += 1
    if not sizes:
        raise InputError(
            f'None of the {count} images in {str(path)!r} can be read as an image '
            f'({unreadable} were tried).'
        )
    return ImageFolder(
        root,
        count,
        int(statistics.median(min(size) for size in sizes)),
        max(width * height for width, height in sizes),
        len(set(sizes)) > 1,
        unreadable,
    )


def _file(sample: dict) -> str | io.BytesIO:
    """The file of a sample, or its content if it is in a shard."""
    read = sample.get('img_bytes')
    return sample['img_path'] if read is None else io.BytesIO(read())
