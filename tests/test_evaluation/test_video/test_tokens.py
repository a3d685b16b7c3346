"""Frames are seen in the size, and normalised as, the protocol says."""

import cv2
import numpy as np
import pytest
import torch
from mmpretrain.models import ClsDataPreprocessor
from mmpretrain.models.backbones import VisionTransformer

from mmbam.evaluation.video import FrameTokens, patch_tokens
from mmbam.evaluation.video.tokens import input_size

ARCH = dict(embed_dims=24, num_layers=2, num_heads=4, feedforward_channels=48)


def vit(**kwargs):
    torch.manual_seed(0)
    network = VisionTransformer(ARCH, img_size=32, patch_size=8, **kwargs)
    network.init_weights()
    network.eval()
    return network


@pytest.mark.parametrize(
    'frame, size, patch, seen',
    [
        ((480, 854), 480, 16, (480, 832)),  # as in DINO's protocol
        ((480, 910), 480, 8, (480, 896)),
        ((854, 480), 480, 16, (832, 480)),
        ((1080, 1920), 480, 16, (480, 832)),
        ((480, 854), 480, 14, (476, 854)),  # 64 is no multiple of the patches
        ((101, 67), 50, 8, (72, 48)),  # 64 would squeeze it
        ((500, 500), 480, 16, (480, 480)),
        ((33, 40), 40, 1, (40, 48)),
        ((480, 575), 480, 16, (480, 512)),
    ],
)
def test_sides_that_the_network_sees(frame, size, patch, seen):
    assert input_size(*frame, size, patch) == seen


def test_frames_are_resized_and_normalised_as_in_training():
    preprocessor = ClsDataPreprocessor(mean=[120] * 3, std=[60] * 3, to_rgb=True)
    tokens = FrameTokens(vit(), preprocessor, size=32)
    frame = np.random.default_rng(0).integers(0, 255, (37, 71, 3), dtype=np.uint8)
    seen = cv2.resize(frame, (56, 32))[..., ::-1].astype(np.float32)
    image = torch.from_numpy((seen - 120) / 60).permute(2, 0, 1)[None]
    with torch.no_grad():
        expected = patch_tokens(vit(), image)[0]
    assert tokens.seen_size(frame) == (32, 56)
    torch.testing.assert_close(tokens(frame), expected)
    with pytest.raises(ValueError, match='one patch, 8 pixels, but got 7'):
        FrameTokens(vit(), preprocessor, size=7)
