"""The outputs of networks as vectors and maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch import Tensor, nn

from mmbam.utils.errors import InputError


def last_features(features: Tensor | Sequence) -> Tensor:
    """Return the last tensor of a backbone's output, which may be nested tuples."""
    while isinstance(features, Sequence):
        features = features[-1]
    return features


def pool_features(features: Tensor | Sequence) -> Tensor:
    """Turn the output of a backbone into one vector (n, c) per image.

    Args:
        features (Tensor | Sequence): Output of a backbone of mmpretrain or timm, of
            which the last tensor counts (the token of a ``[patch map, cls token]``
            pair). A map of shape (n, c, h, w) is averaged over its positions, tokens of
            shape (n, l, c) are averaged, and a vector of shape (n, c) stays as it is.
    """
    features = last_features(features)
    if features.dim() == 4:
        return features.mean(dim=(2, 3))
    if features.dim() == 3:
        return features.mean(dim=1)
    if features.dim() == 2:
        return features
    raise InputError(
        'A backbone must return features of shape (n, c), (n, l, c) or (n, c, h, w), '
        f'but got {tuple(features.shape)}.'
    )


def as_map(features: Tensor | Sequence, network: nn.Module) -> Tensor:
    """Return the last tensor of a network's output, which must be a map."""
    features = last_features(features)
    if features.dim() != 4:
        raise InputError(
            f'{type(network).__name__} returns features of shape '
            f'{tuple(features.shape)}, not maps of shape (n, c, h, w): '
            f'{registering("patch_tokens")}.'
        )
    return features


def map_of_timm(
    features: Tensor | Sequence, network: nn.Module, images: Tensor
) -> Tensor:
    """Turn what a network of timm computes before its head into a map (n, c, h, w)."""
    features = last_features(features)
    if features.dim() == 3:
        tokens = features[:, getattr(network, 'num_prefix_tokens', 0) :]
        grid = grid_of(tokens.shape[1], images)
        features = tokens.transpose(1, 2).unflatten(2, grid)  # ONNX lacks mT
    elif getattr(network, 'output_fmt', 'NCHW') == 'NHWC':
        features = features.permute(0, 3, 1, 2)
    return as_map(features, network)


def run_timm(run: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Run a network of timm, or refuse images of a size that it does not take."""
    try:
        return run(images)
    except AssertionError as error:  # raised by timm's networks of a fixed size
        height, width = images.shape[2:]
        raise InputError(
            f'The network does not take images of {height} x {width} pixels ({error}): '
            'choose another size, or build it with dynamic_img_size=True.'
        ) from error


def grid_of(num_patches: int, images: Tensor) -> tuple[int, int]:
    """Rows and columns of patches in images of this shape."""
    height, width = images.shape[-2:]
    rows = max(1, round(math.sqrt(num_patches * height / width)))
    if num_patches % rows:
        raise InputError(
            f'{num_patches} patches do not fill a grid over images of {height} x '
            f'{width} pixels: use square images.'
        )
    return rows, num_patches // rows


def registering(function: str) -> str:
    """Say how an unknown network is made known."""
    place = 'mmbam.models.backbones.anatomy'
    return f'register a function for it with @{place}.{function}.register'
