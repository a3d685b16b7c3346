"""Every question about a backbone of mmpretrain or timm, answered in one place.

A network with rules of its own is added by registering a function for its class::

    @patch_tokens.register(MyBackbone)
    def _(backbone, images):
        return ...  # (n, c, h, w)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from mmpretrain.models.backbones import ResNet, TIMMBackbone, VisionTransformer
from mmpretrain.models.utils import MultiheadAttention
from torch import Tensor, nn

from mmbam.utils.errors import InputError
from mmbam.utils.model import frozen

from .outputs import as_map, grid_of, map_of_timm, pool_features, registering, run_timm


class NoAttentionError(InputError):
    """A network has no attention from a [cls] token that is known here."""


@functools.singledispatch
def embedding(backbone: nn.Module, images: Tensor) -> Tensor:
    """Embed images: h = f(x).

    Args:
        backbone (nn.Module): Any network whose output :func:`pool_features` takes, or
            one registered here.
        images (Tensor): Normalized images of shape (n, c, H, W).

    Returns:
        Tensor: Embeddings of shape (n, width).
    """
    return pool_features(backbone(images))


@embedding.register(TIMMBackbone)
def _(backbone: TIMMBackbone, images: Tensor) -> Tensor:
    network = backbone.timm_model
    if not hasattr(network, 'forward_head'):  # a feature pyramid
        return pool_features(backbone(images))
    features = run_timm(network.forward_features, images)
    if not isinstance(features, Tensor) or features.dim() != 4:
        return pool_features(network.forward_head(features))
    channels_last = getattr(network, 'output_fmt', 'NCHW') == 'NHWC'
    positions = (1, 2) if channels_last else (2, 3)
    # CAFormer, ConvNeXt and others have their final norm in the head, behind the
    # pooling that mmpretrain's wrapper takes away: it is the norm of the mean.
    head = getattr(network, 'head', None)
    if hasattr(head, 'global_pool') and hasattr(head, 'norm'):
        mean = features.mean(dim=positions, keepdim=True)
        return network.forward_head(mean).flatten(1)
    features = network.forward_head(features)
    return features.mean(positions) if features.dim() == 4 else pool_features(features)


def embedding_width(backbone: nn.Module, image_size: int) -> int:
    """Find the width of a backbone's embedding by running it on a blank image.

    Args:
        backbone (nn.Module): Any network that :func:`embedding` takes.
        image_size (int): Height and width of the image in pixels.
    """
    images = next(backbone.parameters()).new_zeros(1, 3, image_size, image_size)
    with frozen(backbone):
        return embedding(backbone, images).shape[1]


def has_cls_token(backbone: nn.Module) -> bool:
    """Tell whether a backbone has a [cls] token."""
    return getattr(_inner(backbone), 'cls_token', None) is not None


def patch_size(backbone: nn.Module) -> int:
    """Return the side of a ViT's patches in pixels, 1 for a network without patches."""
    embed = getattr(_inner(backbone), 'patch_embed', None)
    if not isinstance(embed, nn.Module):
        return 1
    return math.prod(m.stride[0] for m in embed.modules() if isinstance(m, nn.Conv2d))


@functools.singledispatch
def patch_tokens(backbone: nn.Module, images: Tensor) -> Tensor:
    """Compute the feature map of the last layer.

    For a ViT, these are its patch tokens after the final norm; for any other network,
    its last feature map.

    Args:
        backbone (nn.Module): A backbone of mmpretrain or timm, or one registered here.
        images (Tensor): Normalized images of shape (n, 3, H, W). A ViT needs sides that
            are multiples of its patch size; its position embedding is resized to them.

    Returns:
        Tensor: Features of shape (n, c, h, w).
    """
    return as_map(backbone(images), backbone)


@patch_tokens.register(VisionTransformer)
def _(backbone: VisionTransformer, images: Tensor) -> Tensor:
    configured = backbone.out_type, backbone.out_indices
    backbone.out_type, backbone.out_indices = 'featmap', [backbone.num_layers - 1]
    try:
        return backbone(images)[-1]
    finally:
        backbone.out_type, backbone.out_indices = configured


@patch_tokens.register(TIMMBackbone)
def _(backbone: TIMMBackbone, images: Tensor) -> Tensor:
    network = backbone.timm_model
    # In front of the head, whose layer norm over channels (CAFormer and its kin) makes
    # every sum over channels the same. A feature pyramid has only its whole forward.
    run = getattr(network, 'forward_features', network)
    return map_of_timm(run_timm(run, images), network, images)


@functools.singledispatch
def attention_maps(backbone: nn.Module, images: Tensor) -> Tensor:
    """Compute the last block's attention from [cls] to the patches, head by head.

    Args:
        backbone (nn.Module): A ViT of mmpretrain or timm with a [cls] token, or a
            network registered here. Any other raises :class:`NoAttentionError`.
        images (Tensor): Normalized images of shape (n, c, H, W).

    Returns:
        Tensor: Attention of shape (n, heads, h, w). The attention to [cls] and to other
        extra tokens is left out, so a map sums to less than 1.
    """
    raise _no_attention(backbone)


@attention_maps.register(VisionTransformer)
def _(backbone: VisionTransformer, images: Tensor) -> Tensor:
    attention = backbone.layers[-1].attn
    # Subclasses with rotary or relative positions do more to q and k than project.
    if not (has_cls_token(backbone) and isinstance(attention, MultiheadAttention)):
        raise _no_attention(backbone)
    return _cls_attention(backbone, attention, images, backbone.num_extra_tokens)


@attention_maps.register(TIMMBackbone)
def _(backbone: TIMMBackbone, images: Tensor) -> Tensor:
    from timm.models import vision_transformer as timm_vit  # takes a second

    network = backbone.timm_model
    known = isinstance(network, timm_vit.VisionTransformer) and has_cls_token(network)
    attention = getattr(network.blocks[-1], 'attn', None) if known else None
    if not isinstance(attention, timm_vit.Attention):
        raise _no_attention(network)
    run = functools.partial(run_timm, network)
    return _cls_attention(run, attention, images, network.num_prefix_tokens)


@functools.singledispatch
def heat_map(backbone: nn.Module, images: Tensor) -> Tensor:
    """Show where in each image a backbone looks, as in ContrastiveCrop (Sec. 4).

    For a ViT with a [cls] token, this is the last block's attention from [cls] to the
    patches, summed over heads; for any other network, its last feature map, summed over
    channels. The backbone runs once, in its present mode.

    Args:
        backbone (nn.Module): A backbone of mmpretrain or timm, or one registered here.
        images (Tensor): Normalized images of shape (n, c, H, W).

    Returns:
        Tensor: Heat maps of shape (n, h, w), in the network's own resolution and range.
    """
    try:
        return attention_maps(backbone, images).sum(dim=1)
    except NoAttentionError:
        features = patch_tokens(backbone, images).float()
    heat = features.sum(dim=1)
    # Channels that a layer norm centered cancel out: what is left is rounding.
    noise = 1e-5 * features.abs().sum(dim=1)
    return torch.where(heat.abs() > noise, heat, torch.zeros_like(heat))


@functools.singledispatch
def blocks(backbone: nn.Module) -> list[nn.Module]:
    """List the residual blocks of a backbone, from first to last."""
    raise InputError(
        f'The blocks of {type(backbone).__name__}, which grad_checkpointing needs, are '
        f'not known: use a ResNet or VisionTransformer, or {registering("blocks")}.'
    )


@blocks.register(VisionTransformer)
def _(backbone: VisionTransformer) -> list[nn.Module]:
    return list(backbone.layers)


@blocks.register(ResNet)
def _(backbone: ResNet) -> list[nn.Module]:
    return [b for name in backbone.res_layers for b in getattr(backbone, name)]


def _inner(backbone: nn.Module) -> nn.Module:
    """The network inside mmpretrain's wrapper around timm's."""
    return backbone.timm_model if isinstance(backbone, TIMMBackbone) else backbone


def _no_attention(network: nn.Module) -> NoAttentionError:
    return NoAttentionError(
        f'{type(network).__name__} has no attention from a [cls] token that is known: '
        f'use a ViT with a [cls] token, or {registering("attention_maps")}.'
    )


def _cls_attention(
    run: Callable[[Tensor], object],
    attention: nn.Module,
    images: Tensor,
    num_extra_tokens: int,
) -> Tensor:
    """Attention of [cls], from the q and k of a normal forward pass.

    A hook on their projection leaves the fused kernel, which never forms the attention
    matrix, in place.
    """
    projected: list[Tensor] = []
    handle = attention.qkv.register_forward_hook(lambda m, x, y: projected.append(y))
    try:
        run(images)
    finally:
        handle.remove()
    heads = attention.num_heads
    q, k, _ = projected[-1].chunk(3, dim=-1)
    q = q[:, :1].unflatten(-1, (heads, -1)).transpose(1, 2)  # (n, heads, 1, d)
    k = k.unflatten(-1, (heads, -1)).transpose(1, 2)  # (n, heads, tokens, d)
    q = getattr(attention, 'q_norm', nn.Identity())(q)
    k = getattr(attention, 'k_norm', nn.Identity())(k)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    weights = scores.float().softmax(dim=-1)[:, :, 0, num_extra_tokens:]
    return weights.unflatten(-1, grid_of(weights.shape[-1], images))
