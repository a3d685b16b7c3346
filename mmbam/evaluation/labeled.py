"""A folder of images, divided into those to learn from and those to test."""

from __future__ import annotations

from pathlib import Path

from mmbam.datasets.folder import dataset_of
from mmbam.datasets.splits import balanced_split
from mmbam.utils.errors import InputError

from .frozen import class_folders
from .loaders import build_dataset

TEST_FOLDERS = ('val', 'test')
TEST_SHARE = 0.2


def parts_of(folder: str | Path) -> list[Path]:
    """Return the folders of the training and the test images, or the whole folder."""
    root = Path(folder).absolute()
    if not root.is_dir():
        raise InputError(f'There is no folder {str(folder)!r}.')
    test = [root / name for name in TEST_FOLDERS if (root / name).is_dir()]
    return [root / 'train', test[0]] if test and (root / 'train').is_dir() else [root]


def train_and_test(
    folder: str | Path, pipeline: list[dict], labels: bool = True
) -> tuple[dict, dict, int]:
    """Describe the training and the test images of a folder.

    A fifth of a folder of class folders is kept for testing, unless it holds ``train``,
    and ``val`` or ``test``, of class folders. Without ``labels``, the folders may hold
    images in any order.

    Returns:
        tuple[dict, dict, int]: Configs of the two data sets, and the number of training
        images.
    """
    parts = [
        class_folders(part, pipeline) if labels else dataset_of(part, pipeline=pipeline)
        for part in parts_of(folder)
    ]
    dataset = build_dataset(dict(parts[0], pipeline=[]))
    if len(parts) == 2:
        return parts[0], parts[1], len(dataset)
    known = dataset.get_gt_labels() if labels else [0] * len(dataset)
    drawn, rest = balanced_split(known, TEST_SHARE)
    train, test = (dict(parts[0], indices=part.tolist()) for part in (rest, drawn))
    return train, test, len(rest)
