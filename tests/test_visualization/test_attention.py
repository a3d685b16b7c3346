"""Attention maps: what is drawn is what the network has."""

import cv2
import numpy as np
import pytest
import torch
from mmpretrain.models.backbones import ResNet
from mmpretrain.registry import MODELS
from torch import nn

from mmbam.datasets.decoding import read_image
from mmbam.datasets.finding import find_images
from mmbam.models import attention_maps
from mmbam.utils.errors import InputError
from mmbam.visualization.attention import draw_attention, look
from tests.helpers.tiny import RESNET, VIT


@pytest.fixture
def vit():
    torch.manual_seed(0)
    network = MODELS.build(VIT)
    network.init_weights()
    return network


@pytest.fixture
def preprocessor():
    return MODELS.build(
        dict(
            type='mmpretrain.SelfSupDataPreprocessor',
            mean=[100, 110, 120],
            std=[50, 60, 70],
            to_rgb=True,
        )
    )


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 256, (32, 64, 3), np.uint8)


def test_the_mean_is_that_of_the_heads_of_the_normalised_image(
    vit, preprocessor, image
):
    vit.train()
    gaze = look(vit, preprocessor, image, size=32)
    assert vit.training
    np.testing.assert_array_equal(gaze.image, image)  # has this size already
    mean, std = torch.tensor([100.0, 110, 120]), torch.tensor([50.0, 60, 70])
    inputs = ((torch.from_numpy(image) - mean) / std).permute(2, 0, 1)[None]
    vit.eval()
    with torch.no_grad():
        expected = attention_maps(vit, inputs)[0]
    assert gaze.heads.shape == (4, 4, 8)
    torch.testing.assert_close(gaze.heads, expected)
    torch.testing.assert_close(gaze.mean, sum(expected) / 4)


@pytest.mark.parametrize(
    'shape, size, grid',
    [((32, 64), 96, (12, 24)), ((50, 31), 40, (8, 5)), ((300, 200), 36, (7, 4))],
)
def test_any_resolution_keeps_the_ratio_of_the_sides(
    vit, preprocessor, shape, size, grid
):
    image = np.zeros((*shape, 3), np.uint8)
    gaze = look(vit, preprocessor, image, size)
    assert gaze.heads.shape == (4, *grid)
    assert gaze.image.shape == (8 * grid[0], 8 * grid[1], 3)


def test_a_network_without_cls_attention_shows_its_heat_map(preprocessor, image):
    network = MODELS.build(RESNET)
    assert isinstance(network, ResNet)
    gaze = look(network, preprocessor, image, size=32)
    inputs = torch.from_numpy(gaze.image[..., ::-1].copy()).permute(2, 0, 1)[None]
    network.eval()
    with torch.no_grad():
        data = preprocessor(dict(inputs=inputs, data_samples=None))
        expected = network(data['inputs'])[-1][0].sum(dim=0)
    assert gaze.heads is None
    torch.testing.assert_close(gaze.mean, expected)


def test_a_network_that_shows_nothing_is_refused_in_one_sentence(preprocessor, image):
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(InputError, match='not maps of shape'):
        look(network, preprocessor, image, size=32)


def timm_vit(**kwargs):
    return MODELS.build(
        dict(
            type='mmpretrain.TIMMBackbone',
            model_name='vit_tiny_patch16_224',
            img_size=32,
            embed_dim=24,
            depth=1,
            num_heads=3,
            **kwargs,
        )
    )


def test_a_network_of_fixed_size_is_refused_in_one_sentence(preprocessor, image):
    sentence = 'images of 32 x 64 pixels .* dynamic_img_size=True'
    with pytest.raises(ValueError, match=sentence):
        look(timm_vit(), preprocessor, image, size=32)


def test_a_timm_network_of_any_size_shows_its_heads(preprocessor, image):
    gaze = look(timm_vit(dynamic_img_size=True), preprocessor, image, size=64)
    assert gaze.heads.shape == (3, 4, 8)


def test_less_than_a_patch_is_refused(vit, preprocessor, image):
    with pytest.raises(ValueError, match='one patch, 8 pixels, but got 7'):
        look(vit, preprocessor, image, size=7)


@pytest.mark.parametrize('heads', [0, 3, 12])
def test_every_map_has_its_panel(
    tmp_path, vit, preprocessor, image, heads, monkeypatch
):
    from mmbam.visualization import attention

    gaze = look(vit, preprocessor, image, size=32, name='x' * 99)
    gaze.heads = torch.rand(heads, 4, 8) if heads else None
    gaze.mean = torch.rand(4, 8)
    shown, over = [], []
    original, overlay = attention._show_map, attention.overlay_heat

    def show_map(axes, values, *args):
        shown.append(values)
        picture = original(axes, values, *args)
        assert picture.get_array().max() == 1
        return picture

    def lay_over(axes, image, heat):
        assert image is gaze.image
        over.append(heat)
        return overlay(axes, image, heat)

    monkeypatch.setattr(attention, '_show_map', show_map)
    monkeypatch.setattr(attention, 'overlay_heat', lay_over)
    draw_attention([gaze, gaze], tmp_path / 'a.png')
    expected = [gaze.mean] + ([] if heads == 0 else list(gaze.heads))
    assert len(shown) == 2 * len(expected)
    for one, other in zip(shown, expected * 2):
        assert torch.equal(one, other)
    assert len(over) == 2 and all(heat is gaze.mean for heat in over)
    assert cv2.imread(str(tmp_path / 'a.png')) is not None


def test_images_are_found_in_a_file_or_in_folders(tmp_path):
    (tmp_path / 'b').mkdir()
    for name in ('z.PNG', 'b/a.jpg', 'b/c.webp'):
        assert cv2.imwrite(str(tmp_path / name), np.full((4, 5, 3), (1, 2, 3), 'u1'))
    (tmp_path / 'notes.txt').write_text('no image')
    found = find_images(tmp_path)
    assert [str(f.relative_to(tmp_path)) for f in found] == [
        'b/a.jpg',
        'b/c.webp',
        'z.PNG',
    ]
    assert find_images(tmp_path / 'z.PNG') == [tmp_path / 'z.PNG']
    assert read_image(tmp_path / 'z.PNG')[0, 0].tolist() == [3, 2, 1]  # RGB


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ValueError, match='holds no images'):
        find_images(tmp_path)
    with pytest.raises(FileNotFoundError, match='no image or folder'):
        find_images(tmp_path / 'gone')
    (tmp_path / 'text.png').write_text('text')
    with pytest.raises(ValueError, match='text.png.* cannot be read: this is no image'):
        read_image(tmp_path / 'text.png')
    with pytest.raises(ValueError, match='no images to draw'):
        draw_attention([], tmp_path / 'a.png')
