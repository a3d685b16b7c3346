"""Run a verb of the command as a user does."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from mmbam.cli.main import main

ROOT = Path(__file__).parents[2]


def run_verb(*words):
    """Run ``mmbam WORDS`` in this process.

    Returns:
        tuple[str, str | None]: What it printed, and what it exited with: a sentence, or
        None if all went well. Other exceptions are raised.
    """
    printed, error = io.StringIO(), None
    words = [str(word) for word in words]
    with mock.patch.object(sys, 'argv', ['mmbam', *words]):
        with contextlib.redirect_stdout(printed):
            try:
                main()
            except SystemExit as exit_:
                error = exit_.code
    return printed.getvalue(), error


def run_verb_on_devices(number, *words):
    """Run ``mmbam WORDS --devices NUMBER`` in new processes; what it printed."""
    done = subprocess.run(
        [sys.executable, '-m', 'mmbam', *map(str, words), f'--devices={number}'],
        cwd=ROOT,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
