"""Count the images that cannot be read, and stop the run when there are too many."""

from __future__ import annotations

import json
import logging
import os
import tempfile
import uuid
import weakref
from pathlib import Path
from typing import Any

from mmengine.logging import print_log
from torch.utils.data import get_worker_info

from mmbam.utils.errors import InputError
from mmbam.utils.files import printable

#: A share of a small data set allows at least this many bad images.
MIN_ERRORS = 10


class TooManyReadErrors(InputError):
    """More images cannot be read than the config allows."""

    def __init__(self, message: str) -> None:
        # A loader raises a worker's error again with the worker's whole traceback as
        # the message. Only its end is the sentence.
        super().__init__(message.rpartition(f'{type(self).__name__}: ')[2].strip())


class ReadErrors:
    """The images of a data set that cannot be read, shared by a loader's workers.

    An image counts once, in whatever epoch it fails. Each rank counts its own images.

    Args:
        max_errors (int | float): Number of images that may fail; a float is a share of
            the epoch, but at least 10 images. Defaults to 0.01.
    """

    def __init__(self, max_errors: int | float = 0.01) -> None:
        known = isinstance(max_errors, (int, float)) and max_errors >= 0
        if not known or (isinstance(max_errors, float) and max_errors > 1):
            raise ValueError(
                'max_errors must be a number of images (int, at least 0) or a share of '
                f'an epoch (float in [0, 1]), got {max_errors!r}'
            )
        self.max_errors = max_errors
        # A file, not shared memory: it holds any number of paths, needs no lock for
        # appending, and forked, spawned and persistent workers need only its name. It
        # does not exist until an image fails.
        self._file = Path(tempfile.gettempdir(), f'mmbam-unreadable-{uuid.uuid4().hex}')
        weakref.finalize(self, _remove, self._file, os.getpid())

    def add(self, path: str, error: Exception) -> None:
        """Count and log an image that cannot be read; raise if these are too many."""
        reason = f'{type(error).__name__}: {error}'
        limit = self._limit()
        if limit == 0:  # no record, because it may grow: mmbam embed goes on
            raise TooManyReadErrors(
                f'1 image cannot be read: {printable(path)} ({reason})'
            )
        new = path not in self.paths()
        if new:
            line = json.dumps([path, reason]) + '\n'
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        failed = self.paths()
        if len(failed) > limit:
            listed = [
                f'{printable(name)} ({reason})' for name, reason in failed.items()
            ]
            raise TooManyReadErrors(
                f'{len(listed)} images cannot be read and max_errors={self.max_errors} '
                f'allows {limit}:\n' + '\n'.join(listed)
            )
        if new:
            # ERROR, because other ranks than the first log nothing below it.
            print_log(
                f'Cannot read image {printable(path)} ({reason}); another sample takes '
                'its place',
                'current',
                logging.ERROR,
            )

    def paths(self) -> dict[str, str]:
        """Paths of the images that have failed so far, with the reasons."""
        if not self._file.exists():
            return {}
        return dict(json.loads(line) for line in self._file.read_text().splitlines())

    def _limit(self) -> int:
        if not isinstance(self.max_errors, float):
            return self.max_errors
        worker: Any = get_worker_info()
        # Only workers know the length of the epoch.
        epoch = 0 if worker is None else len(worker.dataset)
        return max(MIN_ERRORS, int(self.max_errors * epoch))


def _remove(file: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked worker that ends must leave the file
        file.unlink(missing_ok=True)
