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
    """mmpretrain's ImageClassifier with a backbone that never changes.

    ``frozen_stages`` does so for some backbones of mmpretrain; those of timm do not
    have it. Here no weight of any backbone is trained, and dropout and the statistics
    of its batch norm stay as they are at test time.

    Args:
        **kwargs: As of ``ImageClassifier``.
    """

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        # Here and not when training begins: a distributed wrapper, made in between,
        # waits for the gradient of each weight that wants one.
        self.backbone.requires_grad_(False)

    def train(self, mode: bool = True) -> LinearProbe:
        """Switch neck and head alone."""
        super().train(mode)
        self.backbone.eval()
        return self


@MODELS.register_module()
class ClsAndPatchesNeck(BaseModule):
    """[cls] and the mean of the patch tokens of a ViT, one after the other.

    What the paper's linear probe of a ViT sees (App. D), for a backbone with
    ``out_type='raw'`` and one leading token.
    """

    def forward(self, features: tuple[Tensor, ...]) -> tuple[Tensor]:
        """Join the tokens.

        Args:
            features (tuple[Tensor, ...]): Of which the last counts, tokens of shape
                (n, 1 + patches, c).

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
