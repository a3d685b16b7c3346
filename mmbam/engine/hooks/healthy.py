"""The last healthy checkpoint of a run, which later ones must not push out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mmengine.dist import is_main_process
from mmengine.runner import Runner


class HealthyCheckpoint:
    """Knows the last checkpoint that was saved while all was well, and keeps it.

    Keeping means a second name, ``healthy_*.pth``, in the same folder: a hard link,
    which takes no space, or a copy where there are none.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self.kept: Path | None = None

    def note(self, runner: Runner) -> None:
        """All is well: what has been saved until now is healthy."""
        last = runner.message_hub.get_info('last_ckpt', None)
        if last and Path(last).is_file():
            self.path = Path(last)
        if self.kept is not None:
            if is_main_process():
                self.kept.unlink(missing_ok=True)
            self.kept = None

    def keep(self) -> None:
        """Something is wrong: give the last healthy checkpoint its second name."""
        if self.kept is not None or self.path is None or not self.path.is_file():
            return
        self.kept = self.path.with_name(f'healthy_{self.path.name}')
        if is_main_process() and not self.kept.exists():
            try:
                os.link(self.path, self.kept)
            except OSError:
                shutil.copyfile(self.path, self.kept)

    def describe(self) -> str:
        """A sentence that names it."""
        if self.kept is None:
            return 'No checkpoint was saved while the run was healthy.'
        return f'The last healthy checkpoint is {self.kept}.'
