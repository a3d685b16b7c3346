"""What happens when images cannot be read: log, replace, and stop when too many."""

from __future__ import annotations

import json
import logging
import os
import tempfile
import uuid
import weakref
from pathlib import Path

from mmengine.logging import print_log
from torch.utils.data import get_worker_info

from mmbam.utils.errors import InputError

#: Few bad images in a small data set are tolerated whatever share of it they are.
MIN_ERRORS = 10


class TooManyReadErrors(InputError):
    """More images of a data set cannot be read than the config allows."""

    def __init__(self, message: str) -> None:
        # A worker of a loader hands over its traceback, with the message at the end.
        super().__init__(message.rpartition(f'{type(self).__name__}: ')[2].strip())


class ReadErrors:
    """The images of a data set that could not be read, known to all its workers.

    An image counts once, however often it is met: an image that is broken in the first
    epoch is broken in all of them. Each rank counts what it meets itself.

    Args:
        max_errors (int | float): How many images may fail: a number of images, or as a
            float a share of an epoch, but at least 10. Defaults to 0.01.
    """

    def __init__(self, max_errors: int | float = 0.01) -> None:
        known = isinstance(max_errors, (int, float)) and max_errors >= 0
        if not known or (isinstance(max_errors, float) and max_errors > 1):
            raise ValueError(
                'max_errors must be a number of images (int, at least 0) or a share of '
                f'an epoch (float in [0, 1]), got {max_errors!r}'
            )
        self.max_errors = max_errors
        # A file rather than shared memory: it holds paths of any number and length, is
        # appended to without a lock, and does not exist while all is well. Its name is
        # all that forked, spawned and persistent workers have to know.
        self._file = Path(tempfile.gettempdir(), f'mmbam-unreadable-{uuid.uuid4().hex}')
        weakref.finalize(self, _remove, self._file, os.getpid())

    def add(self, path: str, error: Exception) -> None:
        """Note an image that cannot be read.

        Args:
            path (str): Of the image.
            error (Exception): What went wrong.

        Raises:
            TooManyReadErrors: If there are now more than ``max_errors``.
        """
        reason = f'{type(error).__name__}: {error}'
        new = path not in self.paths()
        if new:
            line = json.dumps([path, reason]) + '\n'
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        failed, limit = self.paths(), self._limit()
        if len(failed) > limit:
            listed = [f'{name} ({reason})' for name, reason in failed.items()]
            what = '1 image' if len(listed) == 1 else f'{len(listed)} images'
            start = ' ' if len(listed) == 1 else '\n'
            raise TooManyReadErrors(
                f'{what} cannot be read and max_errors={self.max_errors} allows '
                f'{limit}:{start}' + '\n'.join(listed)
            )
        if new:
            # mmengine's loggers are silent below ERROR on all ranks but the first.
            print_log(
                f'Cannot read image {path} ({reason}); another sample takes its place',
                'current',
                logging.ERROR,
            )

    def paths(self) -> dict[str, str]:
        """The images that failed so far, each with the reason."""
        if not self._file.exists():
            return {}
        return dict(json.loads(line) for line in self._file.read_text().splitlines())

    def _limit(self) -> int:
        if not isinstance(self.max_errors, float):
            return self.max_errors
        worker = get_worker_info()
        # Only workers know their data set; without workers the minimum holds.
        epoch = 0 if worker is None else len(worker.dataset)
        return max(MIN_ERRORS, int(self.max_errors * epoch))


def _remove(file: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not a forked worker that ends
        file.unlink(missing_ok=True)
