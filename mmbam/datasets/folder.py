"""All images of a folder as a data set, and which data set a folder needs."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmengine.logging import print_log
from mmpretrain.datasets import CustomDataset

from mmbam.registry import DATASETS
from mmbam.utils.errors import InputError
from mmbam.utils.files import printable

from .finding import SUFFIXES, list_images
from .shards.index import is_shards


@DATASETS.register_module()
class FolderDataset(CustomDataset):
    """All images in a folder and its sub-folders.

    Differs from mmpretrain's ``CustomDataset`` in what it finds: every ending that
    :class:`mmbam.LoadImage` can read counts, in upper and lower case, hidden files and
    folders do not, and one line of the log says how many images there are and what was
    ignored. The order is that of ``CustomDataset``.

    Args:
        data_root (str): The folder. Defaults to ''.
        with_label (bool): Whether the folder holds one folder per class. Their names,
            sorted, are the classes. Defaults to False.
        extensions (Sequence[str]): Endings of images in a folder that is not local, or
            that an ``ann_file`` lists. Defaults to :data:`finding.SUFFIXES`.
        **kwargs: Other arguments of mmpretrain's ``CustomDataset``.
    """

    def __init__(
        self,
        data_root: str = '',
        with_label: bool = False,
        extensions: Sequence[str] = SUFFIXES,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            data_root=data_root, with_label=with_label, extensions=extensions, **kwargs
        )

    def _find_samples(self) -> list:
        folder = self.img_prefix.rstrip('/') or '/'
        if '://' in folder:
            return super()._find_samples()
        names = list_images(folder)
        if not self.with_label:
            return names
        classes = class_names(folder)
        if self.CLASSES is None:
            self._metainfo['classes'] = tuple(classes)
        elif len(self.CLASSES) != len(classes):
            raise InputError(
                f'{len(self.CLASSES)} classes are given, but {printable(folder)!r} '
                f'holds {len(classes)} folders.'
            )
        self.folder_to_idx = {name: label for label, name in enumerate(classes)}
        return self._label(names)

    def _label(self, names: list[str]) -> list[tuple[str, int]]:
        """Class by class, as mmpretrain has them."""
        by_class: list[list[tuple[str, int]]] = [[] for _ in self.folder_to_idx]
        outside = 0
        for name in names:
            first, slash, _ = name.partition('/')
            if slash:
                label = self.folder_to_idx[first]
                by_class[label].append((name, label))
            else:
                outside += 1
        empty = [n for n, label in self.folder_to_idx.items() if not by_class[label]]
        if len(empty) == len(by_class):
            raise InputError(
                f'{printable(self.img_prefix)!r} must hold one folder of images per '
                'class.'
            )
        for what, number in (
            (f'Passed over {outside:,} images in no class folder', outside),
            (f'No images of {", ".join(map(printable, empty))}', len(empty)),
        ):
            if number:
                print_log(what, 'current', logging.WARNING)
        return [sample for samples in by_class for sample in samples]


def class_names(folder: str | Path) -> list[str]:
    """Return the sorted names of the folders in a folder that are not hidden."""
    with os.scandir(folder) as entries:
        return sorted(e.name for e in entries if e.name[0] != '.' and e.is_dir())


def dataset_of(path: str | Path, with_label: bool = False, **kwargs: Any) -> dict:
    """Return the config of the data set that reads a folder of images or of shards.

    Args:
        path (str | Path): A folder of images, a folder of tar shards, or one shard.
        with_label (bool): Whether the samples need labels. Defaults to False.
        **kwargs: Other keys of the config, such as ``pipeline``.
    """
    if not os.path.exists(path):
        raise InputError(f'There is no folder {printable(path)!r}.')
    kind = 'mmbam.ShardDataset' if is_shards(path) else 'mmbam.FolderDataset'
    return dict(type=kind, data_root=os.fspath(path), with_label=with_label, **kwargs)
