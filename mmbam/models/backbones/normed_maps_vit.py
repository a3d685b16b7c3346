"""A ViT with normalized feature maps, for segmentation."""

from __future__ import annotations

from mmpretrain.models.backbones import VisionTransformer
from torch import Tensor

from mmbam.registry import MODELS


@MODELS.register_module()
class NormedMapsViT(VisionTransformer):
    """mmpretrain's ViT with the final norm on each of its outputs.

    ``VisionTransformer`` normalizes the output of its last block alone. Blocks still
    see the tokens without the norm, and the names of the weights are the same.

    Args:
        **kwargs: Arguments of ``VisionTransformer``, except ``final_norm``.
    """

    def __init__(self, **kwargs) -> None:
        super().__init__(final_norm=True, **kwargs)
        self.final_norm = False  # forward leaves the norm to _format_output

    def _format_output(self, x: Tensor, hw: tuple[int, int]) -> Tensor:
        return super()._format_output(self.ln1(x), hw)
