"""Write the config of a recipe, and train from it as ``mmbam train`` does."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.dist import is_main_process
from mmengine.runner import Runner

from mmbam.engine import launch
from mmbam.engine.config_check import check_config
from mmbam.engine.hooks import PageHook, ProgressHook
from mmbam.engine.hooks.page_hook import PAGE
from mmbam.engine.resuming import set_reliable
from mmbam.engine.signals import Stopped
from mmbam.engine.work_dir import LOCK, lock_work_dir
from mmbam.utils.config import read_config
from mmbam.utils.errors import ExpectedError, InputError
from mmbam.utils.files import write_text
from mmbam.utils.process_group import was_restarted

CONFIG = 'config.py'
#: What a launcher, a resume or another machine changes in the config of a run.
PASSING = ('launcher', 'resume', 'load_from', 'env_cfg', 'model_wrapper_cfg', 'sync_bn',
           'work_dir')  # fmt: skip


def require_fitting(cfg: Config, resume: bool) -> None:
    """Refuse a folder that a run cannot begin or go on in, before anything is written.

    Args:
        cfg (Config): The derived config, with its ``work_dir``.
        resume (bool): Whether a run in the folder goes on.

    Raises:
        InputError: The folder holds a live run, another run, or anything if ``resume``
            is not set. A run that has saved no checkpoint does not count.
    """
    path = Path(cfg.work_dir, CONFIG)
    files = path.parent.iterdir() if path.parent.is_dir() else []
    others = [file for file in files if not file.name.startswith('.')]
    if not others:
        return
    if path.with_name(LOCK).is_file():  # a run was here, or still is
        lock_work_dir(cfg.work_dir)
        if path.is_file() and not any(path.parent.glob('*.pth')):
            return  # It has saved nothing: its first mistake may be mended.
    if not resume:
        raise InputError(
            f'--out {cfg.work_dir} is not empty: go on with its run by --resume, '
            'or choose another --out.'
        )
    if not path.is_file():
        raise InputError(
            f'--out {cfg.work_dir} holds no run of mmbam pretrain to resume: there '
            f'is no {CONFIG}.'
        )
    differences = _differences(read_config(path).to_dict(), cfg.to_dict())
    if differences:
        key, before, now = differences[0]
        raise InputError(
            f'The run in {cfg.work_dir} was started with {key}={before!r}, but these '
            f'arguments give {now!r}: resume with the same arguments, or choose '
            'another --out.'
        )


def prepare(cfg: Config, resume: bool) -> Path:
    """Put the config into the folder of the run, or find it there.

    Args:
        cfg (Config): The derived config, with its ``work_dir``.
        resume (bool): Whether a run in the folder goes on.

    Returns:
        Path: The config file.
    """
    lock_work_dir(cfg.work_dir)
    require_fitting(cfg, resume)
    path = Path(cfg.work_dir, CONFIG)
    if not any(path.parent.glob('*.pth')):
        write_text(path, cfg.pretty_text)
    return path


def _differences(before: Any, now: Any, at: str = '') -> list[tuple[str, Any, Any]]:
    """Dotted keys at which two configs differ, with both values."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [*now, *(key for key in before if key not in now)]
        found = []
        for key in keys:
            if not at and key in PASSING:
                continue
            place = f'{at}.{key}' if at else str(key)
            found += _differences(before.get(key), now.get(key), place)
        return found
    if isinstance(before, (list, tuple)) and isinstance(now, (list, tuple)):
        if len(before) == len(now):
            pairs = enumerate(zip(before, now))
            return [d for i, (a, b) in pairs for d in _differences(a, b, f'{at}.{i}')]
    return [] if before == now else [(at, before, now)]


def pretrain(cfg: Config, resume: bool = False, launcher: str = 'none') -> Path:
    """Train from a derived config, with a line of progress in place of the log.

    The config is written to ``config.py`` in its ``work_dir``. The weights are those
    that ``mmbam train`` makes from that file.

    Args:
        cfg (Config): The derived config, the same on all ranks.
        resume (bool): Whether to go on from the newest checkpoint. Defaults to False.
        launcher (str): ``'pytorch'`` under torchrun. Defaults to ``'none'``.

    Returns:
        Path: The config file.
    """
    check_config(cfg)  # before anything is written
    resume = resume or was_restarted()
    if os.environ.get('RANK', '0') == '0' or launcher == 'none':
        path = prepare(cfg, resume)
        _train(path, Path(cfg.work_dir), resume, launcher)
        return path
    # Other ranks may be on other machines, or read the file before it is written.
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder, CONFIG)
        own.write_text(cfg.pretty_text, encoding='utf-8')
        _train(own, Path(cfg.work_dir), resume, launcher)
    return Path(cfg.work_dir, CONFIG)


def _train(path: Path, work_dir: Path, resume: bool, launcher: str) -> None:
    text = path.read_text(encoding='utf-8')
    cfg = launch.load_config(str(path), str(work_dir), launcher=launcher)
    if resume:
        launch.set_resume(cfg, 'auto')
    check_config(cfg)
    set_reliable(cfg)
    lock_work_dir(cfg.work_dir, launcher)
    progress = ProgressHook(health=True)
    # The log goes to its file; warnings and errors to the terminal as well.
    with open(os.devnull, 'w') as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            runner = launch.build_runner(cfg)
        finally:
            if path.read_text(encoding='utf-8') != text and is_main_process():
                # mmengine writes the config as this start has changed it.
                write_text(path, text)
        _show_warnings(runner)
        runner.register_hook(progress)
        try:
            launch.train(runner)
        except (ExpectedError, Stopped) as error:
            _last_page(runner, error)
            raise
        finally:
            progress.close()


def _show_warnings(runner: Runner) -> None:
    # mmengine warns of its own parts, about which a user can do nothing, and of each
    # frozen weight, of which a teacher has hundreds.
    noise = re.compile(
        '"FileClient"|"HardDiskBackend"|.* since its requires_grad=False'
    )
    for handler in runner.logger.handlers:
        if type(handler) is logging.StreamHandler:
            handler.setStream(sys.stderr)
            handler.setLevel(max(handler.level, logging.WARNING))
            handler.addFilter(lambda record: not noise.match(record.getMessage()))


def _last_page(runner: Runner, error: BaseException) -> None:
    pages = [hook for hook in runner.hooks if isinstance(hook, PageHook)]
    for hook in pages:
        why = (
            'it was asked to stop. The same command with --resume goes on with it.'
            if isinstance(error, Stopped)
            else str(error)
        )
        hook.write(runner, f'The run has ended at step {runner.iter + 1:,}: {why}')


def result(path: Path) -> dict[str, str]:
    """Where a run is, and its last checkpoint ('' if there is none)."""
    last = path.with_name('last_checkpoint')
    return dict(
        out=str(path.parent),
        config=str(path),
        page=str(path.with_name(PAGE)),
        checkpoint=last.read_text().strip() if last.is_file() else '',
    )
