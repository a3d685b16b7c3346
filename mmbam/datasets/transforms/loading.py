"""Load images, and replace those that cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import torch
from mmcv.transforms import BaseTransform
from mmengine import fileio
from mmengine.logging import print_log

from mmbam.datasets.bands import RGB, WrongBands
from mmbam.datasets.decoding import MAX_PIXELS, decode, require_regular
from mmbam.datasets.robust import ReadErrors, TooManyReadErrors
from mmbam.registry import TRANSFORMS

from .checks import check_channels


class WrongBandsError(TooManyReadErrors):
    """The first image has another number of bands than the config says."""


@TRANSFORMS.register_module()
class LoadImage(BaseTransform):
    """Load an image; log one that cannot be read, and use another sample instead.

    mmcv's ``LoadImageFromFile`` stops a run at the first bad image, or drops all of
    them silently. This transform returns None for an image that is missing, truncated,
    too large, no image or no regular file; mmengine's data sets then draw another
    sample. Training stops with the list of paths and reasons once more than
    ``max_errors`` images have failed, or at once if the very first one has another
    number of bands than ``channels``, because then most have.

    With ``depth='full'``, images of 8 bits stay uint8 and all others become float32:
    torch 2.1 has no uint16, an offset would leak into every mean of a config, and int32
    is as large. float32 holds every value of uint16 and int16 exactly.

    **Required Keys:**

    - img_path
    - img_bytes (optional): content of the file, or a function that reads it, as of
      :class:`mmbam.ShardDataset`; it is taken out

    **Added Keys:**

    - img: image of uint8 or float32, see :func:`mmbam.datasets.decoding.decode`
    - img_shape
    - ori_shape
    - value_range (where values of uint16 became float32): lowest and highest value that
      the bits allow

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
        channels (int | str): Number of bands of every image, which keep the file's
            order, or ``'rgb'``: images in gray or color as OpenMMLab has them, in the
            order blue, green, red. Defaults to ``'rgb'``.
        depth (int | str): 8 for uint8, ``'full'`` for every bit of the file. Defaults
            to 8.
        bits (int, optional): Number of bits that images of uint16 use, from 8 to 16.
            Defaults to None: with ``depth=8`` what the file's header says, or 10, 12 or
            16 by the highest value of each image, else 16.
    """

    def __init__(
        self,
        max_errors: int | float = 0.01,
        backend_args: dict | None = None,
        max_pixels: int = MAX_PIXELS,
        channels: int | str = RGB,
        depth: int | str = 8,
        bits: int | None = None,
    ) -> None:
        if not isinstance(max_pixels, int) or max_pixels < 1:
            raise ValueError(f'max_pixels must be an int above 0, got {max_pixels!r}')
        if depth not in (8, 'full'):
            raise ValueError(f"depth must be 8 or 'full', got {depth!r}")
        if bits is not None and not (isinstance(bits, int) and 8 <= bits <= 16):
            raise ValueError(f'bits must be None or an int from 8 to 16, got {bits!r}')
        self.channels = check_channels(channels)
        self.depth = depth
        self.bits = bits
        # Shared by the workers: whether a warning was said, and any image was loaded.
        # One tensor, because spawned workers take no memory twice.
        self._shared = torch.zeros(2, dtype=torch.uint8).share_memory_()
        self._any_loaded = False
        self.errors = ReadErrors(max_errors)
        self.max_pixels = max_pixels
        self.backend_args = backend_args
        self._failed_in_a_row = 0

    def transform(self, results: dict) -> dict | None:
        """Load ``results['img_path']``."""
        path = results['img_path']
        try:
            content = self._read(path, results.pop('img_bytes', None))
            img = decode(
                content,
                self.max_pixels,
                self.channels,
                self.depth,
                self.bits,
                self._say,
            )
        except Exception as error:  # decoders and file backends raise many types
            if isinstance(error, WrongBands) and not self._shared[1]:
                raise WrongBandsError(
                    f'{str(path)!r} does not fit: {error}.'
                ) from error
            self.errors.add(str(path), error)
            # A seed may make a bad image determine which sample replaces it. Two
            # bad images could choose each other forever, so from the second failure in
            # a row on, the random numbers are moved forward.
            np.random.random_sample(self._failed_in_a_row)
            self._failed_in_a_row += 1
            return None
        self._failed_in_a_row = 0
        if not self._any_loaded:  # a number is faster to look at than a tensor
            self._any_loaded = True
            self._shared[1] = 1
        if img.dtype == np.uint16:
            results['value_range'] = (0, 2 ** (self.bits or 16) - 1)
        if img.dtype != np.uint8:
            img = img.astype(np.float32, copy=False)
        results['img'] = img
        results['img_shape'] = results['ori_shape'] = img.shape[:2]
        return results

    def _say(self, message: str) -> None:
        if not self._shared[0]:
            self._shared[0] = 1
            print_log(message, 'current', logging.WARNING)

    def _read(self, path: str, given: bytes | Callable[[], bytes] | None) -> bytes:
        if given is not None:
            return given() if callable(given) else given
        if self.backend_args is None and '://' not in str(path):
            require_regular(path)  # or reading it might never end
        return fileio.get(path, backend_args=self.backend_args)

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(max_errors={self.errors.max_errors}, '
            f'backend_args={self.backend_args}, max_pixels={self.max_pixels}, '
            f'channels={self.channels!r}, depth={self.depth!r}, bits={self.bits})'
        )
