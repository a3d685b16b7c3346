"""Embedding and feature map of a backbone, from one forward pass where possible."""

from __future__ import annotations

import functools

from mmpretrain.models.backbones import TIMMBackbone, VisionTransformer
from torch import Tensor, nn

from .anatomy import embedding, patch_tokens
from .outputs import as_map, pool_features, run_timm


@functools.singledispatch
def embedding_and_tokens(backbone: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Compute what :func:`embedding` and :func:`patch_tokens` return.

    It can be traced for TorchScript and ONNX.

    Args:
        backbone (nn.Module): A backbone that both functions take.
        images (Tensor): Normalized images of shape (n, c, H, W).

    Returns:
        tuple[Tensor, Tensor]: Embeddings (n, c) and maps (n, c, h, w).
    """
    usual = [f.dispatch(type(backbone)) for f in (embedding, patch_tokens)]
    if usual == [f.dispatch(object) for f in (embedding, patch_tokens)]:
        output = backbone(images)
        return pool_features(output), as_map(output, backbone)
    return embedding(backbone, images), patch_tokens(backbone, images)


@embedding_and_tokens.register(VisionTransformer)
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


@embedding_and_tokens.register(TIMMBackbone)
def _(backbone: TIMMBackbone, images: Tensor) -> tuple[Tensor, Tensor]:
    network = backbone.timm_model
    if not hasattr(network, 'forward_head'):  # a feature pyramid
        return embedding(backbone, images), patch_tokens(backbone, images)
    features = run_timm(network.forward_features, images)
    # In front of the method of the class.
    vars(network)['forward_features'] = lambda _: features
    try:
        return embedding(backbone, images), patch_tokens(backbone, images)
    finally:
        del vars(network)['forward_features']
