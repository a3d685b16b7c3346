"""Runs of comparisons, each in a process of its own that begins as a fork."""

import importlib
from types import SimpleNamespace

import pytest

from tests.helpers.forked import call_python


@pytest.fixture(scope='module', autouse=True)
def forked_runs():
    """Spare each run the imports; one test starts the command as users do."""
    module = importlib.import_module('mmbam.comparison.compare')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, 'subprocess', SimpleNamespace(call=call_python))
        yield
