"""A page about the run, rewritten while it trains."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmbam.registry import HOOKS
from mmbam.utils.errors import InputError
from mmbam.utils.random import preserved_randomness

from .signs import MEANINGS, run_health

PAGE = 'index.html'
#: A page may take this share of the time since the last one; the last is always made.
SHARE = 0.05
#: Seconds of a page that is never put off.
QUICK = 2.0


@HOOKS.register_module()
class PageHook(Hook):
    """Write ``index.html`` into the work directory, and rewrite it during training.

    The page has the curves, nearest neighbours of some images, views as the network
    gets them, crops and boxes, and alarms. It needs no network and no other file.

    The first rank alone makes it. The run is not changed: random states and modes of
    the network are restored, and whether a page is made depends on nothing that other
    ranks would have to know. A picture that fails is named in the log and on the page,
    and the run goes on.

    Args:
        interval (int): Number of epochs between pages. Defaults to 1.
        minutes (float): Minutes after which a page is made in the middle of an epoch,
            too. Defaults to 15.
    """

    priority = 'VERY_LOW'  # after the scalars of the epoch are logged

    def __init__(self, interval: int = 1, minutes: float = 15) -> None:
        if interval < 1 or not minutes > 0:
            raise InputError(
                'PageHook: interval must be at least 1 and minutes above 0, got '
                f'interval={interval} and minutes={minutes}.'
            )
        self.interval = interval
        self.minutes = minutes
        self._page: Any = None
        self._made_at, self._took = 0.0, 0.0
        self._began, self._first_iter = 0.0, 0

    def before_train(self, runner: Runner) -> None:
        """Read the images to show, and make a first page, of the network as it is."""
        self._began, self._first_iter = time.monotonic(), runner.iter
        self._page = None
        self.write(runner, 'Training begins.')

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch=None, outputs=None
    ) -> None:
        """Make a page if the last one is old."""
        if time.monotonic() - self._made_at >= 60 * self.minutes:
            self.write(runner, self._progress(runner, runner.iter + 1))

    def after_train_epoch(self, runner: Runner) -> None:
        """Make a page every ``interval`` epochs, unless that would take too long."""
        if not self.every_n_epochs(runner, self.interval):
            return
        since = time.monotonic() - self._made_at
        if self._took <= max(QUICK, SHARE * since):
            self.write(runner, self._progress(runner, runner.iter))

    def after_train(self, runner: Runner) -> None:
        """Make the last page."""
        minutes = (time.monotonic() - self._began) / 60
        since = f' since step {self._first_iter:,}' if self._first_iter else ''
        self.write(
            runner,
            f'The run is complete: {runner.iter:,} of {runner.max_iters:,} steps, '
            f'{minutes:.1f} minutes{since}.',
        )

    def write(self, runner: Runner, note: str) -> None:
        """Make the page now; a failure is logged.

        Args:
            runner (Runner): The run.
            note (str): State of the run in a sentence.
        """
        if not is_main_process():
            return
        began = time.monotonic()
        path = Path(runner.work_dir, PAGE)
        try:
            # matplotlib takes a second to import, which other runs need not wait for.
            from mmbam.engine.run_page import RunPage

            with preserved_randomness():
                if self._page is None:
                    self._page = RunPage(runner)
                failures = self._page.write(path, note, self._facts(runner))
        except Exception as error:  # a page must not end a run
            failures = [f'{type(error).__name__}: {error}']
        for failure in failures:
            runner.logger.warning(f'{path} is not complete: {failure}')
        self._made_at = time.monotonic()
        self._took = self._made_at - began

    def _progress(self, runner: Runner, done: int) -> str:
        spent = time.monotonic() - self._began
        left = spent / max(1, done - self._first_iter) * (runner.max_iters - done)
        return (
            f'Step {done:,} of {runner.max_iters:,}, about {left / 60:.0f} minutes '
            f'left at {time.strftime("%Y-%m-%d %H:%M")}. Reload the page to see more.'
        )

    def _facts(self, runner: Runner) -> dict[str, str]:
        from mmbam.engine.run_page import UNIFORM, describe_run

        facts = describe_run(runner)
        now = run_health(runner)
        if now is not None:
            runner.message_hub.update_info(UNIFORM, now.uniform)
            facts['state'] = now.word
            facts['which means'] = MEANINGS[now.word]
            facts['loss'] = (
                f'{now.loss:.3f}, mean of the last steps '
                f'(nothing learned: {now.uniform:.3f})'
            )
            facts['entropy of A'] = f'{now.entropy_a:.3f}, attention of the views'
            facts['entropy of B'] = f'{now.entropy_b:.3f}, balanced target'
        history = runner.message_hub.get_info('knn_history', [])
        if history:
            best = max(history, key=lambda entry: entry['top1'])
            facts['k-NN'] = (
                f'{history[-1]["top1"]:.1f} % after epoch {history[-1]["epoch"]} '
                f'(best {best["top1"]:.1f} % after epoch {best["epoch"]})'
                + _of_images(runner)
            )
        return facts


def _of_images(runner: Runner) -> str:
    """How many images were tested: with 20 of them, one is 5 points."""
    loaders = [getattr(hook, 'test_loader', None) for hook in runner.hooks]
    counts = [len(loader.dataset) for loader in loaders if loader is not None]
    return f', of {counts[0]:,} test images' if counts else ''
