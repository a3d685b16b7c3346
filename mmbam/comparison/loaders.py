"""The images that a comparison evaluates on, with and without labels."""

from __future__ import annotations

import numpy as np
from mmengine.dataset import BaseDataset
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from mmbam.evaluation import build_loader
from mmbam.evaluation.frozen import LOAD
from mmbam.evaluation.loaders import build_dataset

from .method import fill, two_views
from .settings import Settings

VIEWED = 1000  # images at most whose two views are compared


class Pairs(Dataset):
    """Pairs of an image and its label, which is 0 if there are no labels.

    Args:
        dataset (BaseDataset): Data set of packed images, or of several views of each.
        view (int, optional): Number of the view to take. A view is the same each time
            it is read. Defaults to None: the data set has no views.
    """

    def __init__(self, dataset: BaseDataset, view: int | None = None) -> None:
        self.dataset = dataset
        self.view = view

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.view is not None:
            np.random.seed((index, self.view))
        packed = self.dataset[index]
        image = packed['inputs'] if self.view is None else packed['inputs'][self.view]
        return image, int(packed['data_samples'].get('gt_label', 0))


def build_loaders(settings: Settings) -> dict[str, DataLoader]:
    """Build loaders of ``train``, ``test``, and ``first`` and ``second`` views."""
    datasets = settings.datasets()
    parts: dict[str, Dataset] = {
        part: Pairs(build_dataset(datasets[part])) for part in ('train', 'test')
    }
    views = fill(two_views(), dict(size=settings.size))
    pipeline = [LOAD, *views, dict(type='mmpretrain.PackInputs')]
    tested = build_dataset({**datasets['test'], 'pipeline': pipeline})
    shown = np.linspace(0, len(tested) - 1, min(VIEWED, len(tested))).astype(int)
    for number, part in enumerate(('first', 'second')):
        parts[part] = Subset(Pairs(tested, number), shown.tolist())
    return {
        part: build_loader(of, batch_size=256, num_workers=0)
        for part, of in parts.items()
    }
