"""Progress of training in one line."""

from __future__ import annotations

import sys

from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.runner import IterBasedTrainLoop, Runner

from mmbam.registry import HOOKS
from mmbam.utils.errors import InputError
from mmbam.utils.progress import Progress

from .signs import run_health


@HOOKS.register_module()
class ProgressHook(Hook):
    """Show epoch, loss and the time left of a training run.

    On a terminal one line is updated in place; elsewhere (a file, a pipe) a plain line
    is printed now and then.

    Args:
        lines (int): Number of plain lines over the whole run, where the output is no
            terminal. Others come after one minute, two, four and so on. Defaults to 20.
        health (bool): Whether to show means of loss and entropies over 20 steps, and
            what they mean, in place of the last loss. Defaults to False.
    """

    priority = 'VERY_LOW'  # after all other hooks, to include their time

    def __init__(self, lines: int = 20, health: bool = False) -> None:
        if lines < 1:
            raise InputError(f'ProgressHook: lines must be at least 1, got {lines}.')
        self.lines = lines
        self.health = health
        self._file = sys.stdout  # even if stdout is redirected later
        self._progress: Progress | None = None

    def before_train(self, runner: Runner) -> None:
        """Start the clock and, on a terminal, the bar."""
        self._progress = Progress(
            runner.max_iters,
            'Training',
            done=runner.iter,
            lines=self.lines,
            show=is_main_process(),
            file=self._file,
        )

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch=None, outputs=None
    ) -> None:
        """Count the iteration."""
        if self._progress is None or not is_main_process():
            return
        # torch 2.10 warns of float() of what has a gradient.
        loss = outputs['loss'].item() if outputs else float('nan')
        text = f'Epoch {runner.epoch + 1}/{runner.max_epochs}'
        if isinstance(runner.train_loop, IterBasedTrainLoop):
            text = f'Step {runner.iter + 1}/{runner.max_iters}'
        now = run_health(runner) if self.health else None
        text = f'{text}, loss {loss if now is None else now.loss:.3f}'
        if now is not None:
            text += f', A {now.entropy_a:.2f}, B {now.entropy_b:.2f}: {now.word}'
        self._progress.advance(text=text)

    def after_train(self, runner: Runner) -> None:
        """Leave the finished bar on the screen."""
        self.close()

    def close(self) -> None:
        """Release the terminal, also after a run that was interrupted."""
        if self._progress is not None:
            self._progress.close()
