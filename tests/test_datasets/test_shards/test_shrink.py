"""Large images become small JPEGs; whatever would lose more than size is kept."""

import io

import cv2
import numpy as np
import pytest
from PIL import Image

from mmbam.datasets.decoding import decode
from mmbam.datasets.shards.shrink import _avif, holds_more, shrink
from tests.helpers.photographs import photographs

RGB = photographs()[1]  # 140 x 180
TIFFFILE = pytest.importorskip('tifffile')


def by_pil(image, kind, **kwargs):
    file = io.BytesIO()
    image.save(file, kind, **kwargs)
    return file.getvalue()


def by_opencv(suffix, image):
    return cv2.imencode(suffix, image)[1].tobytes()


def by_tifffile(array, **kwargs):
    file = io.BytesIO()
    TIFFFILE.imwrite(file, array, **kwargs)
    return file.getvalue()


def mpo():
    """As phones write it: a photograph, and a second one behind it."""
    image = Image.fromarray(RGB)
    return by_pil(image, 'MPO', save_all=True, append_images=[image])


EIGHT_BITS = {
    'jpeg': lambda: by_pil(Image.fromarray(RGB), 'JPEG'),
    'cmyk jpeg': lambda: by_pil(Image.fromarray(RGB).convert('CMYK'), 'JPEG'),
    'mpo': mpo,
    'png': lambda: by_pil(Image.fromarray(RGB), 'PNG'),
    'transparent png': lambda: by_pil(Image.fromarray(RGB).convert('RGBA'), 'PNG'),
    'palette': lambda: by_pil(Image.fromarray(RGB).convert('P'), 'PNG'),
    'bits': lambda: by_pil(Image.fromarray(RGB).convert('1'), 'PNG'),
    'gray': lambda: by_pil(Image.fromarray(RGB).convert('L'), 'TIFF'),
    'webp': lambda: by_pil(Image.fromarray(RGB), 'WEBP'),
    'gif': lambda: by_pil(Image.fromarray(RGB), 'GIF'),
    'avif': lambda: by_pil(Image.fromarray(RGB), 'AVIF'),
    'jp2': lambda: by_opencv('.jp2', RGB),
    'j2k': lambda: by_pil(Image.fromarray(RGB), 'JPEG2000', no_jp2=True),
    'bmp': lambda: by_opencv('.bmp', RGB),
    'ppm': lambda: by_opencv('.ppm', RGB),
    'pbm': lambda: by_opencv('.pbm', (RGB[..., 0] > 99) * np.uint8(255)),
    'tiff': lambda: by_tifffile(RGB, photometric='rgb'),
    'cmyk tiff': lambda: by_pil(Image.fromarray(RGB).convert('CMYK'), 'TIFF'),
}
DEEP = RGB.astype(np.uint16) * 257
MORE = {
    '16-bit png': lambda: by_opencv('.png', DEEP),
    '16-bit gray png': lambda: by_opencv('.png', DEEP[..., 0]),
    '16-bit tiff': lambda: by_tifffile(DEEP, photometric='rgb'),
    'float tiff': lambda: by_tifffile(DEEP[..., 0].astype(np.float32)),
    'four bands': lambda: by_tifffile(np.dstack([RGB, RGB[..., :1]])),
    'five bands': lambda: by_tifffile(np.dstack([RGB, RGB[..., :2]])),
    'planes': lambda: by_tifffile(
        np.ascontiguousarray(np.dstack([RGB, RGB]).transpose(2, 0, 1)),
        planarconfig='separate',
    ),
    'pages': lambda: by_tifffile(np.stack([RGB[..., 0]] * 3), photometric='minisblack'),
    'bigtiff': lambda: by_tifffile(DEEP, photometric='rgb', bigtiff=True),
    '16-bit ppm': lambda: by_opencv('.ppm', DEEP),
    '16-bit pgm': lambda: by_opencv('.pgm', DEEP[..., 0]),
    '16-bit jp2': lambda: by_opencv('.jp2', DEEP),
    'animation': lambda: by_pil(
        Image.fromarray(RGB),
        'GIF',
        save_all=True,
        append_images=[Image.new('P', (9, 9))],
    ),
}


@pytest.mark.parametrize('kind', EIGHT_BITS)
def test_a_large_image_becomes_a_small_jpeg(kind):
    content = EIGHT_BITS[kind]()
    made, new = shrink(content, 70, 95)
    assert new and made.startswith(b'\xff\xd8\xff')
    image = decode(made)
    assert image.shape == (70, 90, 3)
    expected = cv2.resize(decode(content), (90, 70), interpolation=cv2.INTER_AREA)
    noise = 14 if kind in ('palette', 'bits', 'pbm', 'gif') else 4  # of JPEG
    assert np.abs(image.astype(int) - expected).mean() < noise


@pytest.mark.parametrize('kind', EIGHT_BITS)
def test_what_is_small_already_keeps_its_bytes(kind):
    content = EIGHT_BITS[kind]()
    assert shrink(content, 140, 95) == (content, False)


@pytest.mark.parametrize('kind', MORE)
def test_more_bits_bands_or_pages_keep_their_bytes(kind):
    content = MORE[kind]()
    assert shrink(content, 8, 95) == (content, False)


def test_arrays_are_known_by_their_first_bytes():
    for save in (np.save, np.savez):
        file = io.BytesIO()
        save(file, DEEP)
        assert holds_more(file.getvalue())
    assert holds_more(bytes(128) + b'DICM')


def test_ten_bits_of_avif_are_known_by_the_header():
    content = EIGHT_BITS['avif']()
    place = content.index(b'av1C') + 6
    deep = content[:place] + bytes([content[place] | 0x40]) + content[place + 1 :]
    assert not _avif(content, None) and _avif(deep, None)


@pytest.mark.parametrize('side', [140, 70])
def test_the_orientation_is_that_of_the_loader(side):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    content = by_pil(Image.fromarray(RGB), 'JPEG', exif=exif, quality=95)
    image = decode(shrink(content, side, 95)[0])
    assert image.shape == (side * 180 // 140, side, 3)
    expected = cv2.resize(decode(content), image.shape[1::-1], interpolation=3)
    assert np.abs(image.astype(int) - expected).mean() < 4


def test_a_long_strip_that_no_jpeg_can_hold_keeps_its_bytes():
    content = by_opencv('.png', np.zeros((2, 66_000, 3), np.uint8))
    assert shrink(content, 1, 95)[1]
    content = by_opencv('.png', np.zeros((3, 200_000, 3), np.uint8))
    assert shrink(content, 1, 95) == (content, False)


@pytest.mark.parametrize('kind', ['jpeg', 'png', 'gif', 'webp', 'avif', 'jp2'])
def test_a_damaged_image_is_an_error(kind):
    content = EIGHT_BITS[kind]()
    for size in (70, 140):
        with pytest.raises(Exception):  # noqa: B017 (decoders raise many types)
            shrink(content[: len(content) // 2], size, 95)
