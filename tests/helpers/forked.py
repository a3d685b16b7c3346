"""New processes that need not import everything again."""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from typing import Any

from tests.helpers.run import ROOT

# What most processes need and takes seconds to import.
PRELOADED = ['pytest', 'mmbam.engine', 'mmbam.evaluation']


@functools.cache
def forks() -> BaseContext:
    """Processes that begin as forks of one that has imported what most of them need.

    That one has computed nothing, so it has no threads that a fork would lose. A forked
    test process would have those of autograd.
    """
    multiprocessing.set_forkserver_preload(PRELOADED)
    here = os.getcwd()
    os.chdir(ROOT)  # of the package that it imports
    try:
        forkserver.ensure_running()
    finally:
        os.chdir(here)
    return multiprocessing.get_context('forkserver')


def set_environment(environment: Mapping[str, str]) -> None:
    """Take over another environment; that of a fork is the one of the first fork."""
    os.environ.clear()
    os.environ.update(environment)


def call_python(command: Sequence[str], env: Mapping[str, str], stderr: Any) -> int:
    """Run ``python -c CODE ARGUMENTS`` as ``subprocess.call`` does, but in a fork."""
    python, option, code, *arguments = command
    assert (python, option) == (sys.executable, '-c')
    here = os.getcwd(), dict(env)
    process: Any = forks().Process(
        target=_run, args=(code, arguments, stderr.name, here)
    )
    process.start()
    process.join()
    return process.exitcode


def _run(code: str, arguments: list[str], log: str, here: tuple) -> None:
    folder, environment = here
    os.chdir(folder)
    set_environment(environment)
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)
    sys.argv = ['-c', *arguments]
    parent = multiprocessing.parent_process()
    assert parent is not None
    os.getppid = lambda: parent.pid  # not the process that forks
    exec(code, dict(__name__='__main__'))
