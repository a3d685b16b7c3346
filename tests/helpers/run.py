"""Run a tool as a user does."""

import contextlib
import io
import os
import runpy
import subprocess
import sys
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[2]


def run_tool(name, *args):
    """Run ``tools/name`` in this process.

    Returns:
        tuple[str, str | None]: What it printed, and what it exited with: a sentence, or
        None if all went well. Other exceptions are raised.
    """
    printed, error = io.StringIO(), None
    path = str(ROOT / 'tools' / name)
    with mock.patch.object(sys, 'argv', [path, *map(str, args)]):
        with contextlib.redirect_stdout(printed):
            try:
                runpy.run_path(path, run_name='__main__')
            except SystemExit as exit_:
                error = exit_.code
    return printed.getvalue(), error


def run_tool_on_ranks(ranks, name, *args):
    """Run ``tools/name`` on several ranks through torchrun; what they printed."""
    torchrun = ['-m', 'torch.distributed.run', '--standalone']
    done = subprocess.run(
        [sys.executable, *torchrun, f'--nproc_per_node={ranks}', f'tools/{name}']
        + [str(arg) for arg in args],
        cwd=ROOT,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
