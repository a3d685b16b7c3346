"""Mixed precision where mmengine's AmpOptimWrapper refuses to work: without a GPU."""

from __future__ import annotations

from contextlib import contextmanager

import torch
from mmengine.optim import OptimWrapper
from mmengine.runner import autocast
from torch import nn

from mmbam.registry import OPTIM_WRAPPERS


@OPTIM_WRAPPERS.register_module()
class AutocastOptimWrapper(OptimWrapper):
    """Train in bfloat16 on any device.

    bfloat16 has float32's range of exponents, so no gradient scaler is needed, which is
    the part of ``AmpOptimWrapper`` that needs a GPU.

    Args:
        **kwargs: Arguments of :class:`mmengine.optim.OptimWrapper`.
    """

    @contextmanager
    def optim_context(self, model: nn.Module):
        """Cast in the forward pass, besides what the base class does.

        Args:
            model (nn.Module): The model that is trained.
        """
        with super().optim_context(model), autocast(dtype=torch.bfloat16):
            yield
