"""A linear classifier on a frozen backbone."""

from __future__ import annotations

import torch
from mmengine.model import BaseModule
from mmpretrain.models.classifiers import ImageClassifier
from torch import Tensor

from mmbam.registry import MODELS
from mmbam.utils.errors import InputError


@MODELS.register_module()
class LinearProbe(ImageClassifier):
    """mmpretrain's ImageClassifier with a frozen backbone.

    mmpretrain's ``frozen_stages`` exists for some of its backbones and for none of
    timm's. Here no weight of any backbone is trained, and its dropout and batch norm
    run in evaluation mode.

    Args:
        **kwargs: Arguments of ``ImageClassifier``.
    """

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        # Now, because a distributed wrapper, which is made before training begins,
        # waits for the gradient of every weight that requires one.
        self.backbone.requires_grad_(False)

    def train(self, mode: bool = True) -> LinearProbe:
        """Switch the mode of neck and head only."""
        super().train(mode)
        self.backbone.eval()
        return self


@MODELS.register_module()
class ClsAndPatchesNeck(BaseModule):
    """Concatenation of a ViT's [cls] token and the mean of its patch tokens.

    This is the input of the paper's linear probe of a ViT (App. D). The backbone must
    have ``out_type='raw'`` and one extra token.
    """

    def forward(self, features: tuple[Tensor, ...]) -> tuple[Tensor]:
        """Concatenate the tokens.

        Args:
            features (tuple[Tensor, ...]): Output of the backbone, of which the last
                tensor, tokens of shape (n, 1 + patches, c), is used.

        Returns:
            tuple[Tensor]: One tensor of shape (n, 2 c).
        """
        tokens = features[-1]
        if tokens.dim() != 3:
            raise InputError(
                'ClsAndPatchesNeck needs tokens of shape (n, l, c), which a ViT with '
                f"out_type='raw' returns, but got {tuple(tokens.shape)}."
            )
        return (torch.cat([tokens[:, 0], tokens[:, 1:].mean(dim=1)], dim=1),)
