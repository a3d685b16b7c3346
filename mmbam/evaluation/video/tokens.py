"""What a frozen network says about every place of a frame.

A backbone that :func:`patch_tokens` does not know is added with a function::

    @patch_tokens.register(MyBackbone)
    def _(backbone, images):
        return ...  # (n, c, h, w)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import cv2
import numpy as np
import torch
from mmpretrain.models.backbones import TIMMBackbone, VisionTransformer
from torch import Tensor, nn

from mmbam.models.backbones.features import patch_size
from mmbam.utils.errors import InputError


@functools.singledispatch
def patch_tokens(backbone: nn.Module, images: Tensor) -> Tensor:
    """Feature map of the last layer.

    A ViT answers with its patch tokens behind the final norm, any other network with
    its last feature maps.

    Args:
        backbone (nn.Module): A backbone of mmpretrain or timm, or one registered here.
        images (Tensor): Normalised images of shape (n, 3, H, W). A ViT needs sides that
            are multiples of its patches'; its position embedding is resized to them.

    Returns:
        Tensor: Features of shape (n, c, h, w).
    """
    return _last_map(backbone(images), type(backbone).__name__)


@patch_tokens.register(VisionTransformer)
def _(backbone: VisionTransformer, images: Tensor) -> Tensor:
    asked = backbone.out_type, backbone.out_indices
    backbone.out_type, backbone.out_indices = 'featmap', [backbone.num_layers - 1]
    try:
        return backbone(images)[-1]
    finally:
        backbone.out_type, backbone.out_indices = asked


@patch_tokens.register(TIMMBackbone)
def _(backbone: TIMMBackbone, images: Tensor) -> Tensor:
    network = backbone.timm_model
    try:
        features = network.forward_features(images)
    except AssertionError as error:  # how timm says that its size is fixed
        raise InputError(
            f'{type(network).__name__} does not take frames of {images.shape[2]} x '
            f'{images.shape[3]} pixels ({error}): build it with dynamic_img_size=True.'
        ) from error
    if features.dim() == 3:
        grid = [side // patch_size(backbone) for side in images.shape[2:]]
        tokens = features[:, getattr(network, 'num_prefix_tokens', 0) :]
        if tokens.shape[1] == math.prod(grid):
            return tokens.transpose(1, 2).unflatten(2, grid)
    return _last_map(features, type(network).__name__)


def input_size(height: int, width: int, size: int, patch: int) -> tuple[int, int]:
    """Height and width at which a network sees a frame.

    As in DINO's protocol the longer side is cut down to a multiple of 64: 480 x 832
    pixels for a frame of 480 x 854. Where this would squeeze a small frame by more than
    a seventh, or where patches do not fit into 64 pixels, it becomes a multiple of the
    patches' side instead.

    Args:
        height (int): Of the frame.
        width (int): Of the frame.
        size (int): The shorter side. Becomes a multiple of ``patch``.
        patch (int): Side of the network's patches.
    """
    if size < patch:
        raise InputError(
            f'size must be at least that of one patch, {patch} pixels, but got {size}.'
        )
    short = size // patch * patch
    exact = size * max(height, width) // min(height, width)
    long = exact // 64 * 64
    if 64 % patch or 7 * long < 6 * exact:
        long = exact // patch * patch
    # Rounding must not make the longer side of a squarish frame the shorter one.
    long = max(short, long)
    return (long, short) if height > width else (short, long)


class FrameTokens:
    """Features of the frames of a video, one frame at a time.

    Args:
        backbone (nn.Module): A frozen network that :func:`patch_tokens` knows.
        preprocessor (nn.Module): Normalises BGR images, as a config's
            ``data_preprocessor`` does.
        size (int): Shorter side of what the network sees, in pixels; see
            :func:`input_size`. Defaults to 480.
    """

    def __init__(
        self, backbone: nn.Module, preprocessor: nn.Module, size: int = 480
    ) -> None:
        self.backbone, self.preprocessor, self.size = backbone, preprocessor, size
        input_size(size, size, size, patch_size(backbone))

    def seen_size(self, frame: np.ndarray) -> tuple[int, int]:
        """Height and width at which the network sees a frame."""
        return input_size(*frame.shape[:2], self.size, patch_size(self.backbone))

    @torch.no_grad()
    def __call__(self, frame: np.ndarray) -> Tensor:
        """Feature map (c, h, w) of a frame, BGR of uint8 (height, width, 3)."""
        height, width = self.seen_size(frame)
        seen = cv2.resize(frame, (width, height), interpolation=cv2.INTER_LINEAR)
        batch = torch.from_numpy(seen).permute(2, 0, 1)[None]
        inputs = self.preprocessor(dict(inputs=batch, data_samples=None))['inputs']
        return patch_tokens(self.backbone, inputs)[0]


def _last_map(features: Tensor | Sequence, name: str) -> Tensor:
    while isinstance(features, Sequence):
        features = features[-1]
    if features.dim() != 4:
        raise InputError(
            f'{name} returns features of shape {tuple(features.shape)}, not maps of '
            'shape (n, c, h, w): register a function for it with '
            '@mmbam.evaluation.video.patch_tokens.register.'
        )
    return features
