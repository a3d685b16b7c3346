"""Gradient checkpointing: less memory for more time."""

from __future__ import annotations

from functools import partial

from mmpretrain.models.backbones import TIMMBackbone
from torch import nn
from torch.utils.checkpoint import checkpoint

from .anatomy import blocks


def checkpoint_blocks(backbone: nn.Module) -> None:
    """Recompute every block of ``backbone`` in the backward pass, in place.

    The switches of mmengine and mmpretrain use torch's re-entrant variant, which cannot
    run a block twice in one step of distributed training, once for each size of views.
    """
    if isinstance(backbone, TIMMBackbone):
        backbone.timm_model.set_grad_checkpointing(True)
        return
    for block in blocks(backbone):
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
