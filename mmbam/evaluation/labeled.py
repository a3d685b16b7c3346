"""A folder of labeled images, divided into those to learn from and those to test."""

from __future__ import annotations

from pathlib import Path

from mmbam.datasets.splits import balanced_split

from .frozen import class_folders
from .loaders import build_dataset

TEST_FOLDERS = ('val', 'test')
TEST_SHARE = 0.2


def train_and_test(folder: str, pipeline: list[dict]) -> tuple[dict, dict, int]:
    """Describe the training and the test images of a folder.

    Args:
        folder (str): Folder of class folders, of which a fifth is kept for testing, or
            a folder that holds ``train``, and ``val`` or ``test``, of class folders.
        pipeline (list[dict]): Transforms of both.

    Returns:
        tuple[dict, dict, int]: Configs of the two data sets, and the number of training
        images.
    """
    root = Path(folder).absolute()
    both = [root, root]
    if (root / 'train').is_dir():
        tests = [root / name for name in TEST_FOLDERS if (root / name).is_dir()]
        if tests:
            both = [root / 'train', tests[0]]
    train, test = (class_folders(part, pipeline) for part in both)
    labels = build_dataset(dict(train, pipeline=[])).get_gt_labels()
    if both[0] != both[1]:
        return train, test, len(labels)
    drawn, rest = balanced_split(labels, TEST_SHARE)
    return (
        dict(train, indices=rest.tolist()),
        dict(test, indices=drawn.tolist()),
        len(rest),
    )
