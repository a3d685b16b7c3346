"""The environment with transformers, which ``make transformers`` sets up.

A process there takes seconds to import the library, so one of them runs all pieces of
code that the tests give it.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path

import pytest

from .run import ROOT

OTHER_PYTHON = os.environ.get('MMBAM_TRANSFORMERS_PYTHON') or str(
    ROOT / '.venv-transformers/bin/python'
)
LOOP = """
import json, sys, traceback
answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    error = ''
    try:
        exec(json.loads(line), {})
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps(error), file=answers, flush=True)
"""


@functools.cache
def _process() -> subprocess.Popen:
    env = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
    return subprocess.Popen(  # ends when its input does, with this process
        [OTHER_PYTHON, '-c', LOOP],
        env={**env, 'HF_HUB_OFFLINE': '1', 'OMP_NUM_THREADS': '1'},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run_there(code: str) -> str:
    """Run Python code in the environment.

    Returns:
        str: The traceback, empty if all went well.
    """
    process = _process()
    process.stdin.write(json.dumps(code) + '\n')
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def need_transformers() -> None:
    """Skip the test where the environment is missing."""
    if not Path(OTHER_PYTHON).exists():
        pytest.skip('transformers is not set up: make transformers')
