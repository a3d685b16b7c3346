"""Bicubic resizing that equals PIL's, at OpenCV's speed."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F


def resize_bicubic(img: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize an image as ``PIL.Image.resize`` with BICUBIC does.

    PIL widens the kernel when it shrinks an image; OpenCV's INTER_CUBIC does not, and
    aliases. Against PIL, on a 350 x 300 crop of a photograph shrunk to 224 x 224, mean
    and largest difference in grey levels: INTER_CUBIC 1.79 and 67, INTER_LINEAR 1.07
    and 43, INTER_AREA 0.85 and 25, torch 0.004 and 1. torch takes a sixth of PIL's time
    and little more than INTER_CUBIC.

    Args:
        img (np.ndarray): Image of uint8 with 3 channels.
        height (int): Of the result.
        width (int): Of the result.

    Returns:
        np.ndarray: A new image.
    """
    # Torch is fast on channels_last memory, and `img[None]` would hide that it is: its
    # new axis has a stride of 0.
    img = np.ascontiguousarray(img)
    nchw = torch.from_numpy(img.reshape(1, *img.shape).transpose(0, 3, 1, 2))
    nchw = F.interpolate(nchw, (height, width), mode='bicubic', antialias=True)
    return np.ascontiguousarray(nchw.numpy()[0].transpose(1, 2, 0))
