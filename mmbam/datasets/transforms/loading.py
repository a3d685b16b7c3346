"""Load images, and replace those that cannot be read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mmcv.transforms import BaseTransform
from mmengine import fileio

from mmbam.datasets.images import MAX_PIXELS, decode, require_regular
from mmbam.datasets.robust import ReadErrors
from mmbam.registry import TRANSFORMS


@TRANSFORMS.register_module()
class LoadImage(BaseTransform):
    """Load an image; log one that cannot be read, and use another sample instead.

    mmcv's ``LoadImageFromFile`` stops a run at the first bad image, or drops all of
    them silently. This transform returns None for an image that is missing, truncated,
    too large, no image or no regular file; mmengine's data sets then draw another
    sample. Training stops with the list of paths and reasons once more than
    ``max_errors`` images have failed.

    **Required Keys:**

    - img_path
    - img_bytes (optional): content of the file, or a function that reads it, as of
      :class:`mmbam.ShardDataset`; it is taken out

    **Added Keys:**

    - img: BGR image of uint8, see :func:`mmbam.datasets.images.decode`
    - img_shape
    - ori_shape

    Args:
        max_errors (int | float): Number of images that may fail. A float is a share of
            the epoch, but at least 10 images, and exactly 10 with ``num_workers=0``,
            where the length of the epoch is unknown. With 0 the first bad image stops
            the run, which is right for testing. An image counts once, on each rank and
            in each of several concatenated data sets. Defaults to 0.01.
        backend_args (dict, optional): Arguments of mmengine's file backend. Defaults
            to None, local files.
        max_pixels (int): Number of pixels above which an image is refused, by its
            header and before it is decoded. Defaults to 200 million.
    """

    def __init__(
        self,
        max_errors: int | float = 0.01,
        backend_args: dict | None = None,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        if not isinstance(max_pixels, int) or max_pixels < 1:
            raise ValueError(f'max_pixels must be an int above 0, got {max_pixels!r}')
        self.errors = ReadErrors(max_errors)
        self.max_pixels = max_pixels
        self.backend_args = backend_args
        self._failed_in_a_row = 0

    def transform(self, results: dict) -> dict | None:
        """Load ``results['img_path']``."""
        path = results['img_path']
        try:
            content = self._read(path, results.pop('img_bytes', None))
            img = decode(content, self.max_pixels)
        except Exception as error:  # decoders and file backends raise many types
            self.errors.add(str(path), error)
            # A seed may make a bad image determine which sample replaces it. Two
            # bad images could choose each other forever, so from the second failure in
            # a row on, the random numbers are moved forward.
            np.random.random_sample(self._failed_in_a_row)
            self._failed_in_a_row += 1
            return None
        self._failed_in_a_row = 0
        results['img'] = img
        results['img_shape'] = results['ori_shape'] = img.shape[:2]
        return results

    def _read(self, path: str, given: bytes | Callable[[], bytes] | None) -> bytes:
        if given is not None:
            return given() if callable(given) else given
        if self.backend_args is None and '://' not in str(path):
            require_regular(path)  # or reading it might never end
        return fileio.get(path, backend_args=self.backend_args)

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(max_errors={self.errors.max_errors}, '
            f'backend_args={self.backend_args}, max_pixels={self.max_pixels})'
        )
