"""What every test starts from."""

from __future__ import annotations

import functools

import mmengine.config.config
import mmengine.runner.runner
import pytest
import safetensors.torch
import torch
import yapf.yapflib.yapf_api
from mmengine.logging import MessageHub, MMLogger
from mmengine.registry import DefaultScope
from mmengine.visualization import Visualizer

# torch's own, before any command or fixture of a module replaced them.
LOADERS = torch.load, torch.storage._load_from_bytes, safetensors.torch.load_file


@pytest.fixture(autouse=True, scope='session')
def quick_runners():
    """Spare every runner and checkpoint what takes longer than a step of a tiny model.

    The text of a config is not laid out, and gcc is asked for its version once.
    """
    runner = mmengine.runner.runner
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, 'collect_env', functools.cache(runner.collect_env))
        for module in (yapf.yapflib.yapf_api, mmengine.config.config):
            # Newer mmengine imports it where it calls it.
            patch.setattr(module, 'FormatCode', plain_text, raising=False)
        yield


def plain_text(text: str, **_: object) -> tuple[str, bool]:
    """Stand in for ``FormatCode``, which makes the same code pleasant to read."""
    return text, False


@pytest.fixture(autouse=True)
def fresh_globals():
    """Drop mmengine's named instances, which outlive the runner that made them.

    A message hub would hand the iteration of one test to the next, a default scope of
    mmdet would decide whose ``VisionTransformer`` a later config names, and a run that
    begins in the same second as one of another test would write into that one's log.
    Also put back ``torch.load``, which commands replace in their process. A fixture of
    a module has run before this one, so all of it happens before a test, too.
    """
    _start_anew()
    yield
    _start_anew()


def _start_anew() -> None:
    for manager in (MessageHub, MMLogger, Visualizer, DefaultScope):
        manager._instance_dict.clear()
    torch.load, torch.storage._load_from_bytes, safetensors.torch.load_file = LOADERS
    torch.serialization.load = torch.load
