"""What every test starts from."""

from __future__ import annotations

import pytest
import safetensors.torch
import torch
from mmengine.logging import MessageHub
from mmengine.registry import DefaultScope
from mmengine.visualization import Visualizer


@pytest.fixture(autouse=True)
def fresh_globals():
    """Drop mmengine's named instances, which outlive the runner that made them.

    A message hub would hand the iteration of one test to the next, and a default scope
    of mmdet would decide whose ``VisionTransformer`` a later config names. Also put
    back ``torch.load``, which commands replace in their process.
    """
    load, load_safetensors = torch.load, safetensors.torch.load_file
    yield
    torch.load = torch.serialization.load = load
    safetensors.torch.load_file = load_safetensors
    for manager in (MessageHub, Visualizer, DefaultScope):
        manager._instance_dict.clear()
