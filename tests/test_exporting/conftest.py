"""Opening exported files without a new process for each, which takes seconds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mmbam.exporting import proof, reopen
from tests.helpers.transformers_env import OTHER_PYTHON, run_there


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')


@pytest.fixture
def in_process(monkeypatch):
    """Open the files here, or in the one process that has transformers."""

    def run(command, **kwargs):
        python, script, request = command
        code, error = 1, ''
        if python == OTHER_PYTHON:
            folder = str(Path(script).parent)
            error = run_there(
                f'import sys; sys.path.insert(0, {folder!r}); import reopen; '
                f'del sys.path[0]; reopen.answer({request!r})'
            )
            return subprocess.CompletedProcess(command, bool(error), '', error)
        try:
            reopen.answer(request)
        except ImportError as missing:
            code, error = reopen.MISSING, str(missing)
        except Exception as wrong:
            error = str(wrong)
        return subprocess.CompletedProcess(command, code if error else 0, '', error)

    monkeypatch.setattr(proof.subprocess, 'run', run)
