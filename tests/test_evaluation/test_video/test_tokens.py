"""Patch tokens: those of the last layer, whatever the backbone returns otherwise."""

import cv2
import numpy as np
import pytest
import torch
from mmpretrain.models import ClsDataPreprocessor
from mmpretrain.models.backbones import ResNet, TIMMBackbone, VisionTransformer
from torch import nn

from mmbam.evaluation.video import FrameTokens, patch_tokens
from mmbam.evaluation.video.tokens import input_size, patch_size

ARCH = dict(embed_dims=24, num_layers=2, num_heads=4, feedforward_channels=48)


def vit(**kwargs):
    torch.manual_seed(0)
    network = VisionTransformer(ARCH, img_size=32, patch_size=8, **kwargs)
    network.init_weights()
    network.eval()
    return network


@pytest.mark.parametrize('out_type', ['cls_token', 'raw', 'featmap'])
def test_a_vits_patch_tokens_whatever_it_returns_otherwise(out_type):
    images = torch.randn(2, 3, 24, 40)
    network = vit(out_type=out_type, out_indices=[0])
    with torch.no_grad():
        before = network(images)[0]
        tokens = patch_tokens(network, images)
        expected = vit(out_type='raw')(images)[-1][:, 1:]
        assert torch.equal(network(images)[0], before)
    assert tokens.shape == (2, 24, 3, 5)
    assert torch.equal(tokens.flatten(2).transpose(1, 2), expected)


def test_a_cnns_last_map():
    network = ResNet(18, out_indices=(1, 3))
    network.eval()
    images = torch.randn(1, 3, 64, 96)
    with torch.no_grad():
        assert torch.equal(patch_tokens(network, images), network(images)[-1])


def test_a_vit_of_timm_gives_the_tokens_of_its_last_norm():
    network = TIMMBackbone(
        'vit_tiny_patch16_224', img_size=32, depth=1, dynamic_img_size=True
    )
    network.eval()
    images = torch.randn(1, 3, 32, 48)
    with torch.no_grad():
        tokens = patch_tokens(network, images)
        expected = network.timm_model.forward_features(images)[:, 1:]
    assert tokens.shape == (1, 192, 2, 3)
    assert torch.equal(tokens[0].flatten(1).T, expected[0])
    fixed = TIMMBackbone('vit_tiny_patch16_224', img_size=32, depth=1)
    with pytest.raises(ValueError, match='dynamic_img_size=True'):
        patch_tokens(fixed, images)


def test_a_network_without_a_map_is_named():
    class Pooled(nn.Module):
        def forward(self, images):
            return images.mean(dim=(2, 3))

    with pytest.raises(ValueError, match=r'Pooled returns features of shape \(1, 3\)'):
        patch_tokens(Pooled(), torch.zeros(1, 3, 8, 8))


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
    assert patch_size(vit()) == 8
    with pytest.raises(ValueError, match='one patch, 8 pixels, but got 7'):
        FrameTokens(vit(), preprocessor, size=7)
