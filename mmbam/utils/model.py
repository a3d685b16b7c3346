"""Unwrap a model, freeze a network for a while, choose its memory format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.model import is_model_wrapper
from torch import nn


def unwrap(model: nn.Module) -> nn.Module:
    """Return the model inside its distributed wrappers."""
    while is_model_wrapper(model):
        model = model.module
    return model


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode without gradients; restore every mode on leaving."""
    modes = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        # Not module.train(): submodules may differ, as frozen stages do.
        for m, mode in modes:
            m.training = mode


def takes_channels_last(network: nn.Module) -> bool:
    """Whether a network can be in torch's channels-last memory format.

    Below 16 channels torch 2.1 and 2.10 overwrite memory in it on a CPU.
    """
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    return all(m.out_channels >= 16 for m in convolutions)
