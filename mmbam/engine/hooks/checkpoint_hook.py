"""Checkpoints by time, after a signal, and never half of one."""

from __future__ import annotations

import math
import re
import signal
import time
from pathlib import Path
from typing import Any

import torch
from mmengine import hooks
from mmengine.dist import all_reduce, barrier, is_main_process, master_only
from mmengine.runner import Runner

from mmbam.checkpoints.writing import PART, use_safe_saving, write_file
from mmbam.engine.signals import Stopped, received
from mmbam.registry import HOOKS
from mmbam.utils.errors import InputError

_AUTOSAVE = re.compile(r'autosave_iter_(\d+)\.pth')
_KEEP = 2  # the second one is for the day on which the first is damaged


@HOOKS.register_module()
class CheckpointHook(hooks.CheckpointHook):
    """mmengine's CheckpointHook, which also saves by time and when a run must stop.

    - After ``minutes`` without a checkpoint it saves ``autosave_iter_N.pth``, in the
      middle of an epoch, too. The last two of them are kept until the run is complete.
    - After a signal (SIGTERM, SIGINT, SIGUSR1, SIGHUP) to any rank, all ranks end their
      iteration, save and exit with 128 + signal.
    - A checkpoint is written beside its place and renamed. Old ones are deleted when
      the new one is in place. ``checkpoints.sha256`` holds their checksums.

    Args:
        *args: Those of mmengine's hook.
        minutes (float, optional): Longest time between checkpoints, in minutes of the
            first rank's clock. None saves none by time. Defaults to 15.
        **kwargs: Those of mmengine's hook.
    """

    file_backend: Any

    def __init__(self, *args: Any, minutes: float | None = 15, **kwargs: Any) -> None:
        if minutes is not None and not minutes > 0:
            raise InputError(
                f'CheckpointHook: minutes must be above 0, or None, got {minutes}.'
            )
        super().__init__(*args, **kwargs)
        self.minutes = minutes
        self._saved_at = 0.0
        self._saved_iter = -1

    def before_train(self, runner: Runner) -> None:
        """Start the clock, and remove what a run that was killed left half-written."""
        use_safe_saving()
        super().before_train(runner)
        self.file_backend = _LateRemoval(self.file_backend)
        if is_main_process():
            for part in Path(self.out_dir).glob(f'*{PART}'):
                part.unlink()
        self._saved_at = time.monotonic()

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch=None, outputs=None
    ) -> None:
        """Save if it is time, or if a rank was asked to stop."""
        super().after_train_iter(runner, batch_idx, data_batch, outputs)
        # Gradients of a step that is not complete are in no checkpoint.
        steps = getattr(runner.optim_wrapper, '_accumulative_counts', 1)
        if (runner.iter + 1) % steps:
            return
        seconds = math.inf if self.minutes is None else 60 * self.minutes
        late = is_main_process() and time.monotonic() - self._saved_at >= seconds
        # All ranks take part in saving, so they decide together.
        flags = torch.tensor([received(), int(late)])
        all_reduce(flags, 'max')
        number, late = flags.tolist()
        if (number or late) and self._saved_iter != runner.iter + 1:
            self._autosave(runner)
        if number:
            self._stop(runner, number)

    def after_train(self, runner: Runner) -> None:
        """Remove the autosaves of a run that is complete."""
        super().after_train(runner)
        if self.last_ckpt and not _AUTOSAVE.fullmatch(Path(self.last_ckpt).name):
            self._remove_autosaves(keep=0)

    def _autosave(self, runner: Runner) -> None:
        name = f'autosave_iter_{runner.iter + 1}.pth'
        self._save(runner, name, dict(epoch=runner.epoch, iter=runner.iter + 1), False)
        self._remove_autosaves(keep=_KEEP)

    def _save_checkpoint_with_step(self, runner: Runner, step: int, meta: dict) -> None:
        # In place of mmengine's, which deletes the oldest checkpoint first.
        if self.max_keep_ckpts > 0 and step not in self.keep_ckpt_ids:
            if len(self.keep_ckpt_ids) == self.max_keep_ckpts:
                oldest = self.filename_tmpl.format(self.keep_ckpt_ids.popleft())
                if is_main_process():
                    self.file_backend.remove(
                        self.file_backend.join_path(self.out_dir, oldest)
                    )
            self.keep_ckpt_ids.append(step)
            runner.message_hub.update_info('keep_ckpt_ids', list(self.keep_ckpt_ids))
        self._save(runner, self.filename_tmpl.format(step), meta, self.by_epoch)

    def _save_best_checkpoint(self, runner: Runner, metrics: dict) -> None:
        super()._save_best_checkpoint(runner, metrics)
        self._remove_old()

    def _save(self, runner: Runner, name: str, meta: dict, by_epoch: bool) -> None:
        self.last_ckpt = self.file_backend.join_path(self.out_dir, name)
        runner.message_hub.update_info('last_ckpt', self.last_ckpt)
        runner.save_checkpoint(
            self.out_dir,
            name,
            self.file_client_args,
            save_optimizer=self.save_optimizer,
            save_param_scheduler=self.save_param_scheduler,
            meta=meta,
            by_epoch=by_epoch,
            backend_args=self.backend_args,
            **self.args,
        )
        self._saved_at, self._saved_iter = time.monotonic(), meta['iter']
        if is_main_process():
            write_file(
                Path(runner.work_dir, 'last_checkpoint'), self.last_ckpt.encode()
            )
        self._remove_old()

    @master_only
    def _remove_old(self) -> None:
        best = getattr(self, 'best_ckpt_path_dict', {}).values()
        kept = {self.last_ckpt, getattr(self, 'best_ckpt_path', None), *best}
        self.file_backend.remove_now(kept)

    @master_only
    def _remove_autosaves(self, keep: int) -> None:
        names = self.file_backend.list_dir_or_file(self.out_dir, list_dir=False)
        found = [match for match in map(_AUTOSAVE.fullmatch, names) if match]
        found.sort(key=lambda match: int(match[1]), reverse=True)
        for match in found[keep:]:
            self.file_backend.remove(
                self.file_backend.join_path(self.out_dir, match[0])
            )
        self.file_backend.remove_now({self.last_ckpt})

    def _stop(self, runner: Runner, number: int) -> None:
        barrier()  # until the first rank has written
        runner.logger.warning(
            f'Stopped by {signal.Signals(number).name} after iteration '
            f'{runner.iter + 1}. The run is saved in {self.last_ckpt}: go on with the '
            'same command and --resume.'
        )
        raise Stopped(number)


class _LateRemoval:
    """A file backend that removes a file when told that its successor is in place."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._waiting: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def remove(self, path: str) -> None:
        self._waiting.append(path)

    def remove_now(self, but: set[str | None]) -> None:
        waiting, self._waiting = self._waiting, []
        for path in waiting:
            if path not in but and self._backend.isfile(path):
                self._backend.remove(path)
            elif path not in but and self._backend.isdir(path):
                self._backend.rmtree(path)  # DeepSpeed's checkpoints are folders
