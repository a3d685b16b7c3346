"""Heat maps of a backbone, and the boxes around what they light up.

ContrastiveCrop (Peng et al., CVPR 2022), pictures and localisation all read a network
through :func:`heat_map`. A backbone it does not know is added with a function::

    @heat_map.register(MyBackbone)
    def _(backbone, images):
        return ...  # (n, h, w)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from mmpretrain.models.backbones import TIMMBackbone, VisionTransformer
from mmpretrain.models.utils import MultiheadAttention
from torch import Tensor, nn

from mmbam.utils.errors import InputError


@functools.singledispatch
def heat_map(backbone: nn.Module, images: Tensor) -> Tensor:
    """Show where in each image a backbone looks.

    The backbone runs once, in the mode and with the gradient setting that the caller
    chose. A ViT answers with its last block's attention from [cls] to the patches,
    summed over heads; every other network with its last feature maps, summed over
    channels.

    Args:
        backbone (nn.Module): A backbone of mmpretrain or timm, or one registered here.
        images (Tensor): Normalised images of shape (n, c, H, W).

    Returns:
        Tensor: Heat maps of shape (n, h, w), in the network's own resolution and range.
    """
    return _sum_channels(backbone(images), type(backbone).__name__)


@functools.singledispatch
def attention_maps(backbone: nn.Module, images: Tensor) -> Tensor:
    """Read the last block's attention from [cls] to the patches, head by head.

    Args:
        backbone (nn.Module): A ViT of mmpretrain or timm with a [cls] token, or a
            network registered here (``@attention_maps.register(MyViT)``).
        images (Tensor): Normalised images of shape (n, c, H, W).

    Returns:
        Tensor: Attention of shape (n, heads, h, w). What a query gives to [cls] and
        other extra tokens is left out, so a map sums to less than 1.
    """
    raise _no_attention(backbone)


@heat_map.register(VisionTransformer)
def _(backbone: VisionTransformer, images: Tensor) -> Tensor:
    if backbone.cls_token is None:
        return _sum_channels(backbone(images), type(backbone).__name__)
    return attention_maps(backbone, images).sum(dim=1)


@attention_maps.register(VisionTransformer)
def _(backbone: VisionTransformer, images: Tensor) -> Tensor:
    attention = backbone.layers[-1].attn
    # Sub-classes with rotary or relative positions do more to q and k than project.
    known = isinstance(attention, MultiheadAttention) and backbone.cls_token is not None
    if not known:
        raise _no_attention(backbone)
    return _cls_attention(backbone, attention, images, backbone.num_extra_tokens)


@heat_map.register(TIMMBackbone)
def _(backbone: TIMMBackbone, images: Tensor) -> Tensor:
    network = backbone.timm_model
    if _timm_attention(network) is not None:
        return attention_maps(backbone, images).sum(dim=1)
    # The head of CAFormer and its kin is a layer norm over channels, which makes every
    # sum over channels the same: read the maps in front of it.
    forward = getattr(network, 'forward_features', network)
    return _sum_channels(forward(images), type(network).__name__)


@attention_maps.register(TIMMBackbone)
def _(backbone: TIMMBackbone, images: Tensor) -> Tensor:
    network = backbone.timm_model
    attention = _timm_attention(network)
    if attention is None:
        raise _no_attention(network)
    return _cls_attention(network, attention, images, network.num_prefix_tokens)


def boxes_from_heat_maps(
    heat_maps: Tensor, threshold: float = 0.1, size: int | tuple[int, int] = 224
) -> Tensor:
    """Draw a box around the warm part of each heat map.

    Args:
        heat_maps (Tensor): Heat maps of shape (n, h, w), of any range.
        threshold (float): What counts as warm once a map is scaled to [0, 1].
            Defaults to 0.1, as in ContrastiveCrop.
        size (int | tuple[int, int]): Height and width that the maps are upsampled to,
            bilinearly, before the threshold. Defaults to 224.

    Returns:
        Tensor: float32 boxes (h0, w0, h1, w1) in [0, 1], of shape (n, 4). A map that is
        flat or not finite gives the whole image.
    """
    heat = heat_maps.float()
    low, high = heat.flatten(1).amin(dim=1), heat.flatten(1).amax(dim=1)
    span = high - low
    # Less than this is rounding, not heat.
    resolution = torch.finfo(heat.dtype).eps * 8
    visible = span.isfinite() & (span > resolution * torch.maximum(-low, high))
    scaled = (heat - low[:, None, None]) / span[:, None, None]
    scaled = F.interpolate(
        scaled[:, None], size=size, mode='bilinear', align_corners=False
    )[:, 0]
    warm = scaled > threshold
    h0, h1 = _extent(warm.any(dim=2))
    w0, w1 = _extent(warm.any(dim=1))
    boxes = torch.stack((h0, w0, h1, w1), dim=1)
    whole = boxes.new_tensor((0.0, 0.0, 1.0, 1.0))
    return torch.where(visible[:, None], boxes, whole)


def _extent(hit: Tensor) -> tuple[Tensor, Tensor]:
    """Relative edges of the first and the last hit in each row of (n, length)."""
    length = hit.shape[1]
    hit = hit.to(torch.uint8)
    first = hit.argmax(dim=1)
    last = length - hit.flip(1).argmax(dim=1)
    return first.float() / length, last.float() / length


def _sum_channels(features: Tensor | Sequence, name: str) -> Tensor:
    while isinstance(features, Sequence):
        features = features[-1]
    if features.dim() != 4:
        raise TypeError(
            f'{name} returns features of shape {tuple(features.shape)}, not maps of '
            'shape (n, c, h, w): register a function for it with '
            '@mmbam.models.backbones.saliency.heat_map.register.'
        )
    features = features.float()
    heat = features.sum(dim=1)
    # Channels that a layer norm centred cancel out, and rounding is no heat map.
    noise = 1e-5 * features.abs().sum(dim=1)
    return torch.where(heat.abs() > noise, heat, torch.zeros_like(heat))


def _no_attention(network: nn.Module) -> TypeError:
    return TypeError(
        f'{type(network).__name__} has no attention from a [cls] token that is known '
        'here: use a ViT with a [cls] token, or register a function with '
        '@mmbam.models.backbones.saliency.attention_maps.register.'
    )


def _timm_attention(network: nn.Module) -> nn.Module | None:
    """The last attention of a timm ViT that has a [cls] token."""
    from timm.models.vision_transformer import Attention
    from timm.models.vision_transformer import VisionTransformer as TimmViT

    if not isinstance(network, TimmViT) or network.cls_token is None:
        return None
    attention = getattr(network.blocks[-1], 'attn', None)
    return attention if isinstance(attention, Attention) else None


def _cls_attention(
    network: nn.Module, attention: nn.Module, images: Tensor, num_extra_tokens: int
) -> Tensor:
    """Soft-max of the [cls] row alone, from the q and k of a normal forward pass.

    Listening to the projection leaves the fused kernel, which never forms the
    attention matrix, in place.
    """
    projected = []
    handle = attention.qkv.register_forward_hook(
        lambda module, args, output: projected.append(output)
    )
    try:
        network(images)
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
    return weights.unflatten(-1, _grid(weights.shape[-1], images))


def _grid(num_patches: int, images: Tensor) -> tuple[int, int]:
    """Rows and columns of patches in images of this shape."""
    height, width = images.shape[-2:]
    rows = max(1, round(math.sqrt(num_patches * height / width)))
    if num_patches % rows:
        raise InputError(
            f'{num_patches} patches do not fill a grid over images of {height} x '
            f'{width} pixels: use square images.'
        )
    return rows, num_patches // rows
