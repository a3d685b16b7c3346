"""From a file to a BGR image, whatever the file holds."""

from __future__ import annotations

import io

import cv2
import numpy as np
from mmcv.transforms import BaseTransform
from mmengine import fileio
from PIL import Image, ImageOps, UnidentifiedImageError

from mmbam.datasets.robust import ReadErrors
from mmbam.registry import TRANSFORMS

#: How complete files of the formats that OpenCV decodes here begin and end.
_COMPLETE = ((b'\xff\xd8\xff', b'\xff\xd9'), (b'\x89PNG\r\n', b'IEND\xaeB`\x82'))


def decode(content: bytes) -> np.ndarray:
    """Decode an image to BGR of uint8.

    Grey, palette and CMYK images become BGR, images of 16 bits lose the lower 8, alpha
    is dropped (as PIL's and OpenCV's conversions do: colours under it stay), the EXIF
    orientation is applied, and of an animation the first frame is taken.

    JPEG and PNG files with their end in place go to OpenCV. Everything else goes to
    PIL, which is slower, knows more formats and raises an error for a truncated file:
    some versions of OpenCV return the part that is there with grey below it.

    Args:
        content (bytes): What is in the file.

    Returns:
        np.ndarray: (height, width, 3) of uint8.

    Raises:
        Exception: If this is no image, not all of one, or one of 32 bits.
    """
    for start, end in _COMPLETE:
        if content.startswith(start) and content.endswith(end):
            img = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
            if img is not None:
                return img
    try:
        img = Image.open(io.BytesIO(content))
    except UnidentifiedImageError:
        raise ValueError('this is no image') from None  # PIL names a buffer's address
    with img:
        img = ImageOps.exif_transpose(img)
        if img.mode == 'F':
            raise ValueError('images of 32-bit floats are not supported')
        if img.mode.startswith('I'):
            wide = np.asarray(img)
            if wide.min() < 0 or wide.max() > 65535:
                raise ValueError('images of 32-bit integers are not supported')
            img = Image.fromarray((wide >> 8).astype(np.uint8))
        return cv2.cvtColor(np.asarray(img.convert('RGB')), cv2.COLOR_RGB2BGR)


@TRANSFORMS.register_module()
class LoadImage(BaseTransform):
    """Load an image; log one that cannot be read, and take another in its place.

    Works in the training pipeline of any mmengine data set: for an image that is
    truncated, no image or gone this returns None, upon which the data set draws another
    of its samples. When more than ``max_errors`` images have failed, training stops
    with the list of their paths and reasons.

    **Required Keys:**

    - img_path

    **Added Keys:**

    - img: BGR image of uint8, see :func:`decode` for what becomes of other formats
    - img_shape
    - ori_shape

    Args:
        max_errors (int | float): How many images may fail: a number of images (0, the
            one to take for testing: the first one stops the run), or as a float a share
            of an epoch, but at least 10. An image counts once, and on each rank and in
            each of several concatenated data sets by itself. Without workers
            (``num_workers=0``) the length of an epoch is not known here and a share
            means 10. Defaults to 0.01.
        backend_args (dict, optional): Of mmengine's file backend. Defaults to None.
    """

    def __init__(
        self, max_errors: int | float = 0.01, backend_args: dict | None = None
    ) -> None:
        self.errors = ReadErrors(max_errors)
        self.backend_args = backend_args
        self._failed_in_a_row = 0

    def transform(self, results: dict) -> dict | None:
        """Load ``results['img_path']``."""
        path = results['img_path']
        try:
            img = decode(fileio.get(path, backend_args=self.backend_args))
        except Exception as error:  # decoders and file backends raise what they like
            self.errors.add(str(path), error)
            # With SeedBySample the data set's choice of another sample follows from
            # this one. Two unreadable images that choose each other would do so
            # forever, so the second failure in a row moves the random numbers on.
            np.random.random_sample(self._failed_in_a_row)
            self._failed_in_a_row += 1
            return None
        self._failed_in_a_row = 0
        results['img'] = img
        results['img_shape'] = results['ori_shape'] = img.shape[:2]
        return results

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(max_errors={self.errors.max_errors}, '
            f'backend_args={self.backend_args})'
        )
