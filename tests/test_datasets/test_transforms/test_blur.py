"""Blur is PIL's Gaussian blur, with sigma uniform in its range."""

import cv2
import numpy as np
import pytest
from PIL import Image, ImageFilter
from scipy import stats

from mmbam.datasets.transforms import GaussianBlur
from mmbam.datasets.transforms.blur import gaussian_blur, gaussian_kernel
from tests.helpers.photographs import difference, photographs, to_bgr


@pytest.mark.parametrize('sigma', [0.1, 0.4, 0.75, 1.0, 1.33, 1.6, 2.0])
def test_blur_equals_pils(sigma):
    for rgb in photographs():
        reference = Image.fromarray(rgb).filter(ImageFilter.GaussianBlur(sigma))
        error = difference(gaussian_blur(to_bgr(rgb), sigma), reference)
        assert error.mean() < 0.8
        # At the border PIL repeats the last pixels anew for each of its three passes.
        assert error[7:-7, 7:-7].max() <= 4


def test_the_last_pixels_are_repeated_beyond_the_border():
    img = to_bgr(photographs()[0])
    wide = cv2.copyMakeBorder(img, 9, 9, 9, 9, cv2.BORDER_REPLICATE)
    expected = gaussian_blur(wide, 2.0)[9:-9, 9:-9]
    np.testing.assert_array_equal(gaussian_blur(img, 2.0), expected)


@pytest.mark.parametrize('sigma', [0.5, 1.0, 1.5, 2.0])
def test_the_kernel_has_the_width_it_names_and_keeps_brightness(sigma):
    kernel = gaussian_kernel(sigma).astype(float)
    x = np.arange(len(kernel)) - len(kernel) // 2
    assert kernel.sum() == 1
    assert np.sqrt((kernel * x**2).sum()) == pytest.approx(sigma, rel=0.05)
    np.testing.assert_array_equal(kernel, kernel[::-1])


def test_sigma_is_uniform_and_drawn_with_its_probability():
    np.random.seed(0)
    blur = GaussianBlur((0.1, 2.0), prob=0.5)
    drawn = [blur.draw() for _ in range(4000)]
    sigmas = [sigma for sigma in drawn if sigma is not None]
    assert stats.binomtest(len(sigmas), 4000, 0.5).pvalue > 0.01
    assert stats.kstest(sigmas, stats.uniform(0.1, 1.9).cdf).pvalue > 0.01


def test_the_transform_blurs():
    rgb = photographs()[0]
    blurred = GaussianBlur((2.0, 2.0), prob=1.0)(dict(img=rgb))['img']
    assert (
        np.abs(np.diff(blurred.astype(int), axis=0)).mean()
        < 0.7 * np.abs(np.diff(rgb.astype(int), axis=0)).mean()
    )
    assert GaussianBlur(prob=0.0)(dict(img=rgb))['img'] is rgb


@pytest.mark.parametrize(
    'kwargs', [dict(sigma=(2.0, 0.1)), dict(sigma=(-1, 1)), dict(prob=-0.1)]
)
def test_wrong_arguments_are_refused(kwargs):
    with pytest.raises(ValueError, match='must be'):
        GaussianBlur(**kwargs)
