"""The images of a data set that can be read, and what is wrong with the others."""

from __future__ import annotations

from typing import Any

from mmengine.dataset import default_collate
from torch.utils.data import Dataset

from mmbam.datasets.robust import TooManyReadErrors
from mmbam.datasets.transforms.loading import WrongBandsError
from mmbam.utils.files import printable


class ReadableImages(Dataset):
    """Samples with their numbers; a name and a reason where one cannot be read.

    As in training, the first image must have the bands that the pipeline asks for.

    Args:
        dataset (Dataset): Samples, whose images are loaded with ``max_errors=0``.
        names (list[str]): Name of each sample.
    """

    def __init__(self, dataset: Dataset, names: list[str]) -> None:
        self.dataset, self.names = dataset, names
        try:  # here, because which one a worker reads first depends on interruptions
            dataset[0]
        except WrongBandsError:
            raise
        except TooManyReadErrors:
            pass

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[int, Any]:
        try:
            return index, self.dataset[index]
        except TooManyReadErrors as error:
            cause = error.__context__ or error
            reason = ' '.join(f'{type(cause).__name__}: {cause}'.split())
            return index, printable(f'{self.names[index]} ({reason})')


def collate(samples: list[tuple[int, Any]]) -> tuple[list[int], list[str], Any]:
    """Numbers of the images that can be read, what the others are, and the batch."""
    unreadable = [sample for _, sample in samples if isinstance(sample, str)]
    read = [pair for pair in samples if not isinstance(pair[1], str)]
    batch = default_collate([sample for _, sample in read]) if read else None
    return [number for number, _ in read], unreadable, batch
