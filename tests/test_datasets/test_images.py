"""Every kind of image is read as BGR of uint8, or not at all."""

import io

import cv2
import numpy as np
import pytest
from PIL import Image

from mmbam.datasets.decoding import decode, read_image
from mmbam.datasets.finding import find_images
from tests.helpers.photographs import photographs

RGB = photographs()[1]


def encode(image, kind, **kwargs):
    content = io.BytesIO()
    image.save(content, kind, **kwargs)
    return content.getvalue()


def assert_close(content, rgb, mean=0.0):
    made = decode(content)
    assert made.dtype == np.uint8 and made.shape == rgb.shape
    assert np.abs(made[..., ::-1].astype(int) - rgb).mean() <= mean


@pytest.mark.parametrize(
    ('kind', 'mean'),
    [('PNG', 0), ('BMP', 0), ('TIFF', 0), ('JPEG', 6), ('WEBP', 6), ('GIF', 20)],
)
def test_formats(kind, mean):
    assert_close(encode(Image.fromarray(RGB), kind), RGB, mean)


@pytest.mark.parametrize('kind', ['PNG', 'TIFF', 'GIF', 'JPEG'])
def test_a_gray_image_has_three_equal_channels(kind):
    gray = Image.fromarray(RGB).convert('L')
    expected = np.asarray(gray.convert('RGB')).astype(int)
    assert_close(encode(gray, kind), expected, 6 if kind == 'JPEG' else 0)


def test_a_cmyk_image_keeps_its_colors():
    cmyk = Image.fromarray(RGB).convert('CMYK')
    assert_close(encode(cmyk, 'JPEG', quality=95), RGB, 4)
    assert_close(encode(cmyk, 'TIFF'), RGB, 1)


@pytest.mark.parametrize('kind', ['PNG', 'TIFF', 'WEBP'])
def test_alpha_is_dropped(kind):
    image = Image.fromarray(RGB).convert('RGBA')
    image.putalpha(Image.linear_gradient('L').resize(image.size))
    kwargs = dict(lossless=True, exact=True) if kind == 'WEBP' else {}
    assert_close(encode(image, kind, **kwargs), RGB)


def test_palettes_and_bits_become_colors():
    for mode in ('P', '1'):
        image = Image.fromarray(RGB).convert(mode)
        assert_close(encode(image, 'PNG'), np.asarray(image.convert('RGB')))


@pytest.mark.parametrize('kind', ['PNG', 'TIFF'])
def test_sixteen_bits_are_scaled_not_clipped(kind):
    gray = RGB[..., :1].repeat(3, 2)
    wide = Image.fromarray(gray[..., 0].astype(np.uint16) * 257)
    assert_close(encode(wide, kind), gray)
    bgr = RGB[..., ::-1].astype(np.uint16) * 257
    assert_close(cv2.imencode(f'.{kind.lower()}', bgr)[1].tobytes(), RGB)


@pytest.mark.parametrize('kind', ['JPEG', 'PNG', 'WEBP', 'TIFF'])
def test_the_exif_orientation_is_applied(kind):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    rgb = RGB.copy()
    rgb[:70, :90] = 255  # bright at the top left, so then at the top right
    kwargs = {} if kind in ('PNG', 'TIFF') else dict(quality=100)
    content = encode(Image.fromarray(rgb), kind, exif=exif, **kwargs)
    assert_close(content, np.rot90(rgb, -1), 6)


@pytest.mark.parametrize('shape', [(1, 1), (1, 3000), (3000, 5)])
@pytest.mark.parametrize('kind', ['PNG', 'JPEG'])
def test_very_small_and_very_long_images(shape, kind):
    rgb = np.full((*shape, 3), 90, np.uint8)
    assert_close(encode(Image.fromarray(rgb), kind), rgb, 1)


@pytest.mark.parametrize('kind', ['JPEG', 'PNG', 'WEBP', 'GIF', 'BMP', 'TIFF'])
@pytest.mark.parametrize('share', [0.0, 0.05, 0.5, 0.95])
def test_a_truncated_file_is_an_error(kind, share):
    content = encode(Image.fromarray(RGB), kind)
    with pytest.raises((OSError, ValueError, SyntaxError)):  # by decoder and place
        decode(content[: int(share * len(content))])


@pytest.mark.parametrize('progressive', [False, True])
def test_a_jpeg_whose_end_is_zeros_is_an_error(progressive):
    content = encode(Image.fromarray(RGB), 'JPEG', progressive=progressive)
    with pytest.raises(OSError, match='truncated'):
        decode(content[:-800] + bytes(800))


def test_a_truncated_jpeg_never_reaches_opencv(monkeypatch):
    """Some versions of OpenCV return a gray rest, so that is not left to them."""
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: np.zeros((8, 8, 3), np.uint8))
    content = encode(Image.fromarray(RGB), 'JPEG')
    assert decode(content).shape == (8, 8, 3)
    with pytest.raises(OSError, match='truncated'):
        decode(content[:-100])


def test_bytes_behind_a_complete_jpeg_do_no_harm():
    assert_close(encode(Image.fromarray(RGB), 'JPEG') + b'more' * 20, RGB, 6)


def test_32_bits_are_refused():
    wide = np.full((4, 4), 70000, np.int32)
    for image in (wide, wide.astype(np.float32)):
        with pytest.raises(ValueError, match='32'):
            decode(encode(Image.fromarray(image), 'TIFF'))


def test_images_are_found_in_folders_and_read_as_rgb(tmp_path):
    (tmp_path / 'inner').mkdir()
    for name in ('b.PNG', 'inner/a.png'):
        Image.fromarray(RGB).save(tmp_path / name)
    (tmp_path / 'notes.txt').touch()
    assert find_images(tmp_path) == [tmp_path / 'b.PNG', tmp_path / 'inner/a.png']
    assert find_images(tmp_path / 'b.PNG') == [tmp_path / 'b.PNG']
    np.testing.assert_array_equal(read_image(tmp_path / 'b.PNG'), RGB)


def test_what_cannot_be_found_or_read_is_named(tmp_path):
    (tmp_path / 'text.png').write_text('no image')
    (tmp_path / 'empty').mkdir()
    with pytest.raises(ValueError, match="empty' holds no images"):
        find_images(tmp_path / 'empty')
    with pytest.raises(FileNotFoundError, match="no image or folder '.*gone'"):
        find_images(tmp_path / 'gone')
    with pytest.raises(FileNotFoundError, match="no image '.*gone.png'"):
        read_image(tmp_path / 'gone.png')
    with pytest.raises(ValueError, match="text.png' cannot be read: this is no image"):
        read_image(tmp_path / 'text.png')
