"""Progress of training in one line."""

from __future__ import annotations

import sys
import time

from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.runner import IterBasedTrainLoop, Runner
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from mmbam.registry import HOOKS
from mmbam.utils.errors import InputError

from .health import run_health


@HOOKS.register_module()
class ProgressHook(Hook):
    """Show epoch, loss and the time left of a training run.

    On a terminal one line is updated in place; elsewhere (a file, a pipe) a plain line
    is printed now and then.

    Args:
        lines (int): Number of plain lines over the whole run. Defaults to 20.
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
        self._bar: Progress | None = None

    def before_train(self, runner: Runner) -> None:
        """Start the clock and, on a terminal, the bar."""
        self._first_iter, self._began = runner.iter, time.monotonic()
        console = Console(file=self._file)
        if console.is_terminal and is_main_process():
            self._bar = Progress(
                TextColumn('{task.description}'),
                BarColumn(),
                TextColumn('{task.percentage:3.0f} %'),
                TimeRemainingColumn(),
                console=console,
                redirect_stdout=False,
            )
            self._task = self._bar.add_task(
                'Training', total=runner.max_iters, completed=runner.iter
            )
            self._bar.start()

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch=None, outputs=None
    ) -> None:
        """Count the iteration."""
        if not is_main_process():
            return
        done, total = runner.iter + 1, runner.max_iters
        loss = float(outputs['loss']) if outputs else float('nan')
        text = f'Epoch {runner.epoch + 1}/{runner.max_epochs}'
        if isinstance(runner.train_loop, IterBasedTrainLoop):
            text = f'Step {done}/{total}'
        now = run_health(runner) if self.health else None
        text = f'{text}, loss {loss if now is None else now.loss:.3f}'
        if now is not None:
            text += f', A {now.entropy_a:.2f}, B {now.entropy_b:.2f}: {now.word}'
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=text)
        elif done * self.lines // total > (done - 1) * self.lines // total:
            spent = time.monotonic() - self._began
            left = spent / (done - self._first_iter) * (total - done)
            print(
                f'{text}, {100 * done // total} %, {spent:.0f} s, {left:.0f} s left',
                file=self._file,
                flush=True,
            )

    def after_train(self, runner: Runner) -> None:
        """Leave the finished bar on the screen."""
        self.close()

    def close(self) -> None:
        """Release the terminal, also after a run that was interrupted."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
