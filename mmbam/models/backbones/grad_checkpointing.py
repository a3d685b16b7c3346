"""Less memory for more time: recompute a backbone's blocks in the backward pass."""

from __future__ import annotations

from functools import partial

from mmpretrain.models.backbones import ResNet, TIMMBackbone, VisionTransformer
from torch import nn
from torch.utils.checkpoint import checkpoint


def checkpoint_blocks(backbone: nn.Module) -> None:
    """Checkpoint every block of ``backbone``, in place.

    mmengine's and mmpretrain's own switches use torch's re-entrant variant, which
    cannot run a block twice in one step under distributed training, as views of two
    sizes make it do.

    Args:
        backbone (nn.Module): A ResNet or ViT of mmpretrain, or a timm backbone that
            supports it.
    """
    if isinstance(backbone, TIMMBackbone):
        backbone.timm_model.set_grad_checkpointing(True)
        return
    if isinstance(backbone, VisionTransformer):
        blocks = list(backbone.layers)
    elif isinstance(backbone, ResNet):
        blocks = [b for name in backbone.res_layers for b in getattr(backbone, name)]
    else:
        raise TypeError(
            'grad_checkpointing works for ResNet, VisionTransformer and TIMMBackbone, '
            f'but the backbone is a {type(backbone).__name__}.'
        )
    for block in blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
