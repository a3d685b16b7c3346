"""Embedding and feature map of a backbone from one pass."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from mmpretrain.models.backbones import TIMMBackbone, VisionTransformer
from torch import Tensor, nn

from mmbam.models import embedding
from mmbam.models.backbones.anatomy import patch_tokens


class Features(nn.Module):
    """A backbone in evaluation mode that returns its embedding and its feature map.

    Args:
        backbone (nn.Module): A backbone of mmpretrain or timm.
    """

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.train(False)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Compute embeddings (n, c) and maps (n, c, h, w) of normalized images."""
        return features(self.backbone, images)


@functools.singledispatch
def features(backbone: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Compute what ``embedding`` and ``patch_tokens`` return, in one pass.

    Args:
        backbone (nn.Module): A backbone of mmpretrain or timm, or one registered here.
        images (Tensor): Normalized images of shape (n, 3, H, W).
    """
    output = backbone(images)
    with _replaced(backbone, 'forward', lambda _: output):
        return embedding(backbone, images), patch_tokens(backbone, images)


@features.register(VisionTransformer)
def _(backbone: VisionTransformer, images: Tensor) -> tuple[Tensor, Tensor]:
    tokens: list[Tensor] = []
    # The last module that both outputs share; what follows is a choice of tokens.
    last = backbone.ln1 if backbone.final_norm else backbone.layers[-1]
    handle = last.register_forward_hook(lambda m, x, y: tokens.append(y))
    try:
        vector = embedding(backbone, images)
    finally:
        handle.remove()
    # By products of sizes, so that a traced graph works for images of any size.
    patches = tokens[-1][:, backbone.num_extra_tokens :]
    stride = backbone.patch_embed.projection.stride
    grid = [images.shape[2 + axis] // stride[axis] for axis in (0, 1)]
    # Neither len() nor mT: tracing keeps the one, and ONNX lacks the other.
    return vector, patches.transpose(1, 2).reshape(images.shape[0], -1, *grid)


@features.register(TIMMBackbone)
def _(backbone: TIMMBackbone, images: Tensor) -> tuple[Tensor, Tensor]:
    network = backbone.timm_model
    if not hasattr(network, 'forward_features'):  # a feature pyramid
        return features.dispatch(nn.Module)(backbone, images)
    output = network.forward_features(images)
    with _replaced(network, 'forward_features', lambda _: output):
        return embedding(backbone, images), patch_tokens(backbone, images)


@torch.no_grad()
def reference(backbone: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the features that an export must have, by the package's own functions.

    Args:
        backbone (nn.Module): The backbone in evaluation mode.
        images (Tensor): Normalized images of shape (n, 3, H, W).
    """
    return embedding(backbone, images), patch_tokens(backbone, images)


def difference(found: Tensor, expected: Tensor) -> float:
    """Largest difference, as a share of the expected numbers' root mean square."""
    if found.shape != expected.shape:
        return float('inf')
    scale = expected.square().mean().sqrt()
    return ((found - expected).abs().max() / scale).item()


@contextmanager
def _replaced(module: nn.Module, name: str, function: Any) -> Iterator[None]:
    # In front of the method of the class.
    vars(module)[name] = function
    try:
        yield
    finally:
        del vars(module)[name]
