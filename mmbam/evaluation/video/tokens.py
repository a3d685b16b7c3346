"""Features of the frames of a video."""

from __future__ import annotations

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from mmbam.models.backbones.anatomy import patch_size, patch_tokens
from mmbam.utils.errors import InputError


def input_size(height: int, width: int, size: int, patch: int) -> tuple[int, int]:
    """Choose the height and width at which a network sees a frame.

    As in DINO's protocol, the longer side is cut down to a multiple of 64: a frame of
    480 x 854 pixels becomes 480 x 832. It becomes a multiple of the patch size instead
    if that does not divide 64, or if the cut would squeeze a small frame by more than a
    seventh. The shorter side is ``size``, rounded down to a multiple of ``patch``.
    """
    if size < patch:
        raise InputError(
            f'size must be at least one patch, {patch} pixels, but got {size}.'
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
        backbone (nn.Module): A frozen network that
            :func:`~mmbam.models.backbones.anatomy.patch_tokens` takes.
        preprocessor (nn.Module): Module that normalizes BGR images, such as the
            ``data_preprocessor`` of a config.
        size (int): Shorter side of the resized frames in pixels; see
            :func:`input_size`. Defaults to 480.
    """

    def __init__(
        self, backbone: nn.Module, preprocessor: nn.Module, size: int = 480
    ) -> None:
        self.backbone, self.preprocessor, self.size = backbone, preprocessor, size
        input_size(size, size, size, patch_size(backbone))

    def seen_size(self, frame: np.ndarray) -> tuple[int, int]:
        """Return the height and width at which the network sees a frame."""
        height, width = frame.shape[:2]
        return input_size(height, width, self.size, patch_size(self.backbone))

    @torch.no_grad()
    def __call__(self, frame: np.ndarray) -> Tensor:
        """Compute the features (c, h, w) of a BGR frame of uint8 (height, width, 3)."""
        height, width = self.seen_size(frame)
        seen = cv2.resize(frame, (width, height), interpolation=cv2.INTER_LINEAR)
        batch = torch.from_numpy(seen).permute(2, 0, 1)[None]
        inputs = self.preprocessor(dict(inputs=batch, data_samples=None))['inputs']
        return patch_tokens(self.backbone, inputs)[0]
