"""MultiCrop of any number of bands and bits; RGB of 8 bits stays what it was."""

import numpy as np
import pytest

from mmbam.datasets.transforms import MultiCrop, ResizeShortSide
from mmbam.datasets.transforms.band_views import BandView, band_view, render_bands
from mmbam.datasets.transforms.blur import gaussian_blur
from mmbam.datasets.transforms.color import adjust, gray, solarize
from mmbam.datasets.transforms.resize import resize_bicubic
from mmbam.datasets.transforms.view import View, ViewParams, render
from tests.helpers.photographs import photographs, to_bgr

PLAIN = dict(flip=0.0, jitter=0.0, blur=0.0)
RNG = np.random.default_rng(0)
FIVE = RNG.integers(0, 65536, (40, 50, 5)).astype(np.uint16)
WHOLE = (0, 0, 40, 50)


def params(**changes):
    plain = ViewParams(16, WHOLE, False, [], False, None, False)
    return plain._replace(**changes)


def one(image, value_range=None, rgb=False, **changes):
    return render_bands(image, params(**changes), value_range)


def test_rgb_of_8_bits_is_bit_equal_to_its_steps():
    """Each step by itself, in the order and with the draws of earlier versions."""
    crop = MultiCrop(
        [
            dict(size=48, area=(0.25, 1), blur=1.0),
            dict(num=3, size=32, area=(0.05, 0.25), solarize=0.5, vertical_flip=0.3),
        ]
    )
    for seed, rgb in enumerate(photographs()):
        image = to_bgr(rgb)
        np.random.seed(seed)
        made = crop(dict(img=image))['img']
        after = np.random.random_sample()
        np.random.seed(seed)
        draws = [
            view.draw(*image.shape[:2]) for view in crop.views for _ in range(view.num)
        ]
        assert np.random.random_sample() == after, 'no more draws than before'
        for view, draw in zip(made, draws):
            top, left, h, w = draw.window
            out = resize_bicubic(
                image[top : top + h, left : left + w], *[draw.size] * 2
            )
            out = adjust(out, draw.jitter)
            out = gray(out) if draw.gray else out
            out = out if draw.sigma is None else gaussian_blur(out, draw.sigma)
            out = solarize(out) if draw.solarize else out
            out = out[:, ::-1] if draw.flip else out
            out = out[::-1] if draw.vertical_flip else out
            out = out if out.ndim == 3 else np.stack([out] * 3, axis=2)
            assert view.dtype == np.uint8
            np.testing.assert_array_equal(view, out)


@pytest.mark.parametrize('dtype', ['uint8', 'uint16', 'int16', 'float32'])
@pytest.mark.parametrize('bands', [1, 2, 3, 5, 13])
def test_any_number_of_bands_and_any_type(dtype, bands):
    image = RNG.integers(0, 256, (30, 40, bands)).astype(dtype)
    views = [dict(num=2, size=16, area=(0.3, 1)), dict(size=8, area=(0.1, 0.3))]
    crop = MultiCrop(views, channels=bands)
    np.random.seed(0)
    made = crop(dict(img=image))['img']
    assert [v.shape for v in made] == 2 * [(16, 16, bands)] + [(8, 8, bands)]
    expected = np.uint8 if dtype == 'uint8' else np.float32
    assert all(v.dtype == expected for v in made)
    # PackInputs needs no copy.
    assert all(v.transpose(2, 0, 1).flags.c_contiguous for v in made)


def test_geometry_and_blur_are_the_same_for_every_band():
    window = dict(window=(3, 5, 30, 20), sigma=1.5, flip=True, vertical_flip=True)
    five = one(FIVE, **window)
    for band in range(5):
        alone = one(FIVE[..., band : band + 1], **window)
        np.testing.assert_allclose(five[..., band], alone[..., 0], rtol=1e-5)
    eight = (FIVE[..., :3] >> 8).astype(np.uint8)
    difference = render(eight, params(**window)).astype(int) - one(eight, **window)
    assert np.abs(difference).max() <= 1


def test_16_bits_are_kept():
    """A difference in the lowest bit of a flat image is still there."""
    image = np.full((40, 50, 2), 1000, np.uint16)
    image[..., 1] += 1
    made = one(image, sigma=1.0)
    np.testing.assert_allclose(made[..., 1] - made[..., 0], 1, atol=1e-3)


def test_wide_rgb_looks_like_rgb_of_8_bits():
    np.random.seed(0)
    kind = View(size=32, area=(0.2, 1.0), solarize=0.5, blur=0.5)
    errors = []
    for rgb in photographs():
        image = to_bgr(rgb)
        draws = [kind.draw(*image.shape[:2]) for _ in range(20)]
        wide = image.astype(np.uint16) * 257
        made = [(render_bands(wide, view), render(image, view)) for view in draws]
        for a, b in made:
            errors.append(np.abs(a / 257 - b).mean())
    assert np.mean(errors) < 1.5  # 8 bits are rounded at each step


def test_brightness_and_contrast_are_of_each_band():
    image = FIVE // 4
    plain = one(image)
    factors = np.array([0.5, 1, 1.5, 2, 0.1], np.float32)
    bright = one(image, jitter=[('brightness', factors)])
    np.testing.assert_allclose(bright, plain * factors, rtol=1e-5)
    flat = one(image, value_range=(-1e6, 1e6), jitter=[('contrast', factors)])
    np.testing.assert_allclose(flat.mean((0, 1)), plain.mean((0, 1)), rtol=1e-4)
    np.testing.assert_allclose(flat.std((0, 1)), plain.std((0, 1)) * factors, rtol=1e-2)


def test_factors_are_drawn_for_each_band_within_their_range():
    np.random.seed(0)
    kind = band_view(dict(size=8, area=(1, 1), jitter=1.0, strength=(0.4, 0.2)), 5)
    draws = [kind.draw(40, 50) for _ in range(200)]
    for name, low, high in (('brightness', 0.6, 1.4), ('contrast', 0.8, 1.2)):
        factors = np.array([dict(draw.jitter)[name] for draw in draws])
        assert factors.shape == (200, 5)
        assert low <= factors.min() < low + 0.05 and high - 0.05 < factors.max() <= high
        others = np.corrcoef(factors.T) - np.eye(5)
        assert np.abs(others).max() < 0.3


def test_the_range_of_values_is_that_of_the_bits_or_declared():
    twelve = FIVE >> 4
    bright = dict(jitter=[('brightness', np.full(5, 3, np.float32))])
    assert one(FIVE, **bright).max() == 65535
    assert one(twelve, value_range=(0, 4095), **bright).max() == 4095
    floats = twelve.astype(np.float32)
    assert one(floats, **bright).max() > 4095, 'unknown, so nothing is clipped'
    crop = MultiCrop([dict(size=8, area=(1, 1), **PLAIN, solarize=1.0)], channels=5)
    made = crop(dict(img=floats, value_range=(0, 4095)))['img'][0]
    assert 0 <= made.min() and made.max() <= 4095 / 2


def test_solarize_inverts_above_the_middle_of_the_range():
    ramp = np.arange(256, dtype=np.uint16).reshape(16, 16, 1) * 257
    made = one(ramp, solarize=True, window=(0, 0, 16, 16))
    np.testing.assert_allclose(made, np.minimum(ramp, 65535 - ramp.astype(float)))
    made = one(ramp, (100, 1100), solarize=True, window=(0, 0, 16, 16))
    assert made.min() == 100 and made.max() <= 600
    with pytest.raises(ValueError, match='set value_range of MultiCrop'):
        one(ramp.astype(np.float32), solarize=True, window=(0, 0, 16, 16))


def test_dropped_bands_are_black_and_one_always_stays():
    image = np.full((40, 50, 5), 700, np.uint16)
    for probability, expected in ((0.0, 5.0), (0.5, 2.53), (1.0, 1.0)):
        view = dict(PLAIN, size=8, area=(1, 1), num=300, band_dropout=probability)
        np.random.seed(0)
        crop = MultiCrop([view], channels=5, value_range=(100, 1000))
        bands = np.array([v[0, 0].round(2) for v in crop(dict(img=image))['img']])
        assert set(np.unique(bands)) <= {100, 700}
        left = (bands == 700).sum(axis=1)
        assert left.min() >= 1 and abs(left.mean() - expected) < 0.15


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(channels=5, gray=0.2), "channels='rgb'"),
        (dict(channels=3, strength=(0.4, 0.4, 0.2, 0.1)), 'strength=\\(bright'),
        (dict(channels='bgr'), "'rgb' or a number of bands"),
        (dict(channels=0), "'rgb' or a number of bands"),
        (dict(value_range=(5, 5)), 'low < high'),
        (dict(band_dropout=0.5), 'needs channels=N'),
        (dict(channels=5, band_dropout=2), 'band_dropout of a view'),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    own = {k: arguments.pop(k) for k in ('channels', 'value_range') if k in arguments}
    with pytest.raises(ValueError, match=message):
        MultiCrop([dict(size=8, area=(0.5, 1), **arguments)], **own)


@pytest.mark.parametrize(
    'image', [np.zeros((8, 8, 4), np.uint16), FIVE.astype(float), FIVE[..., 0]]
)
def test_images_of_another_kind_are_refused(image):
    with pytest.raises(TypeError, match='takes images of uint8, uint16.* with 5 ch'):
        MultiCrop([dict(size=8, area=(0.5, 1))], channels=5)(dict(img=image))


def test_the_short_side_is_resized_for_any_number_of_bands():
    image = photographs()[0][:60, :90].astype(np.float32).repeat(3, axis=2)
    made = ResizeShortSide(20)(dict(img=image))
    assert made['img'].shape == (20, 30, 9) and made['img_shape'] == (20, 30)
    assert made['img'].dtype == np.float32
    assert isinstance(band_view(dict(size=8, area=(1, 1)), 2), BandView)
    with pytest.raises(ValueError, match='at least 1'):
        ResizeShortSide(0)
