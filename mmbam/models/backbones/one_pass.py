"""Embedding and feature map of a backbone, from one forward pass where possible."""

from __future__ import annotations

import functools

from mmpretrain.models.backbones import TIMMBackbone, VisionTransformer
from torch import Tensor, nn

from .anatomy import (
    as_map,
    embedding,
    has_cls_token,
    map_of_timm,
    map_of_tokens,
    patch_tokens,
    pool_features,
    run_timm,
)


@functools.singledispatch
def embedding_and_tokens(backbone: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Compute what :func:`embedding` and :func:`patch_tokens` return.

    Args:
        backbone (nn.Module): A backbone that both functions take.
        images (Tensor): Normalized images of shape (n, 3, H, W).

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
    if not (has_cls_token(backbone) and backbone.out_type == 'cls_token'):
        return embedding(backbone, images), patch_tokens(backbone, images)
    configured = backbone.out_type, backbone.out_indices
    backbone.out_type, backbone.out_indices = 'raw', [backbone.num_layers - 1]
    try:
        tokens = backbone(images)[-1]
    finally:
        backbone.out_type, backbone.out_indices = configured
    return tokens[:, 0], map_of_tokens(tokens[:, backbone.num_extra_tokens :], images)


@embedding_and_tokens.register(TIMMBackbone)
def _(backbone: TIMMBackbone, images: Tensor) -> tuple[Tensor, Tensor]:
    network = backbone.timm_model
    if not hasattr(network, 'forward_head'):  # a feature pyramid
        return embedding(backbone, images), patch_tokens(backbone, images)
    features = run_timm(network.forward_features, images)
    pooled = pool_features((network.forward_head(features),))
    return pooled, map_of_timm(features, network, images)
