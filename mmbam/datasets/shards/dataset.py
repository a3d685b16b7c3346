"""Images in tar shards as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from mmengine.logging import print_log
from mmpretrain.datasets import BaseDataset

from mmbam.registry import DATASETS
from mmbam.utils.errors import InputError
from mmbam.utils.files import printable

from .index import ShardIndex, open_index


@DATASETS.register_module()
class ShardDataset(BaseDataset):
    """Images in tar shards, of ``mmbam pack`` or any others in WebDataset's form.

    Nothing is extracted: an index, which is made on first use, says where each image
    lies. So a sample has a number like a file in a folder, and shuffling, boxes of
    ContrastiveCrop and resuming work as with files. The pipeline must begin with
    :class:`mmbam.LoadImage`, to which an image in a damaged shard is an unreadable one.

    Args:
        data_root (str): A folder with tar files, or one tar file. Defaults to ''.
        with_label (bool): Whether the samples need labels: a ``.cls`` member, or
            ``class`` or ``cls`` in a ``.json`` member, as a number or a name. Names,
            sorted, are the classes. Defaults to False.
        **kwargs: Other arguments of mmpretrain's ``BaseDataset``.
    """

    def __init__(
        self,
        data_root: str = '',
        with_label: bool = False,
        lazy_init: bool = False,
        **kwargs: Any,
    ) -> None:
        self.with_label = with_label
        super().__init__(
            ann_file='',
            data_root=data_root,
            serialize_data=False,  # the index is in a file already
            lazy_init=True,
            **kwargs,
        )
        if not lazy_init:
            self.full_init()

    def load_data_list(self) -> Samples:
        """Open the index."""
        place = self.img_prefix.rstrip('/') or '/'  # one shard is no folder
        index = open_index(place)
        without = f' (ignored: {index.without_image:,} samples without an image)'
        shards = 'shard' if len(index.shards) == 1 else 'shards'
        print_log(
            f'{len(index):,} images in {len(index.shards):,} {shards} in '
            f'{printable(place)}{without if index.without_image else ""}',
            'current',
        )
        if not len(index):
            raise InputError(f'The shards in {printable(place)!r} hold no images.')
        if self.with_label:
            missing = int((index.labels < 0).sum())
            if missing:
                raise InputError(
                    f'{missing:,} of {len(index):,} samples in {printable(place)!r} '
                    'have no class: set with_label=False, or give each a .cls, or a '
                    "'class' in its .json."
                )
            if self.CLASSES is None:
                names = index.classes or map(str, range(int(index.labels.max()) + 1))
                self._metainfo['classes'] = tuple(names)
        return Samples(index, np.arange(len(index)), self.with_label)

    def get_gt_labels(self) -> np.ndarray:
        """Return the labels of all samples."""
        self.full_init()
        return self.data_list.labels

    def _get_unserialized_subset(self, indices: Sequence[int] | int) -> Samples:
        if isinstance(indices, int):
            indices = range(len(self.data_list))[
                slice(indices) if indices >= 0 else slice(indices, None)
            ]
        return self.data_list.subset(indices)


class Samples(Sequence):
    """Descriptions of samples, each made when it is asked for.

    ``numbers`` are those of the samples in the index.
    """

    def __init__(
        self, source: ShardIndex, numbers: np.ndarray, with_label: bool
    ) -> None:
        self.source, self.numbers, self.with_label = source, numbers, with_label

    def __deepcopy__(self, memo: dict) -> Samples:  # nothing in it changes
        return self

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, place: Any) -> Any:
        number = int(self.numbers[place])
        sample = dict(
            img_path=self.source.name(number),
            # Read by LoadImage, which knows what to do if that fails.
            img_bytes=partial(self.source.read, number),
        )
        if self.with_label:
            sample['gt_label'] = int(self.source.labels[number])
        return sample

    @property
    def labels(self) -> np.ndarray:
        """Label of each sample."""
        return self.source.labels[self.numbers].astype(np.int64)

    def subset(self, places: Sequence[int]) -> Samples:
        """Return the samples at some places."""
        numbers = self.numbers[np.asarray(places, dtype=np.int64)]
        return Samples(self.source, numbers, self.with_label)
