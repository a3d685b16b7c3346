"""Color steps give torchvision's images and are drawn from its distributions."""

import itertools

import cv2
import numpy as np
import pytest
import torch
import torchvision.transforms.functional as TF
from PIL import Image
from scipy import stats
from torchvision import transforms as T

from mmbam.datasets.transforms.color import (
    ColorJitter,
    adjust,
    gray,
    shift_hue,
    solarize,
)
from tests.helpers.photographs import difference, photographs, to_bgr

LINEAR = ('brightness', 'contrast', 'saturation')


def by_torchvision(rgb, steps):
    image = Image.fromarray(rgb)
    for name, factor in steps:
        image = getattr(TF, f'adjust_{name}')(image, factor)
    return image


def errors(steps):
    """Of all photographs, in gray levels."""
    return np.concatenate(
        [
            difference(adjust(to_bgr(rgb), steps), by_torchvision(rgb, steps)).ravel()
            for rgb in photographs()
        ]
    )


@pytest.mark.parametrize('factor', [0.03, 0.6, 0.93, 1.17, 1.4])
@pytest.mark.parametrize('name', LINEAR)
def test_one_linear_step_equals_torchvisions(name, factor):
    error = errors([(name, factor)])
    assert error.mean() < 0.3 and error.max() <= 1


@pytest.mark.parametrize('order', list(itertools.permutations(LINEAR)))
@pytest.mark.parametrize(
    'factors', [(1.4, 0.6, 0.6), (0.6, 1.4, 0.7), (0.8, 0.7, 1.4), (1.4, 1.4, 1.4)]
)
def test_folded_steps_clip_where_single_steps_do(order, factors):
    error = errors([(name, factors[LINEAR.index(name)]) for name in order])
    assert error.mean() < 0.6 and error.max() <= 4


@pytest.mark.parametrize('shift', [-0.5, -0.31, -0.1, -0.02, 0.003, 0.1, 0.25, 0.5])
def test_a_hue_shift_equals_torchvisions_up_to_pils_8_bit_hsv(shift):
    error = errors([('hue', shift)])
    assert error.mean() < 0.5 and np.quantile(error, 0.999) <= 6


@pytest.mark.parametrize('shift', [-0.5, -0.25, -0.1, 0.1, 0.2, 0.4, 0.5])
def test_a_hue_shift_is_exact_up_to_rounding(shift):
    """Against HSV in floating point, on colors of all kinds."""
    rgb = np.random.default_rng(0).integers(0, 256, (50, 50, 3), np.uint8)
    hsv = cv2.cvtColor(rgb.astype(np.float32), cv2.COLOR_RGB2HSV)
    hsv[..., 0] = (hsv[..., 0] + 360 * int(shift * 255) / 255) % 360
    expected = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)
    assert np.abs(shift_hue(to_bgr(rgb), shift)[..., ::-1] - expected).max() < 0.51


def test_drawn_jitter_equals_torchvisions():
    np.random.seed(0)
    jitter = ColorJitter(0.4, 0.4, 0.4, 0.1)
    error = np.concatenate([errors(jitter.draw()) for _ in range(20)])
    assert error.mean() < 0.6 and np.quantile(error, 0.999) <= 6


def test_gray_and_solarize_equal_torchvisions():
    for rgb in photographs():
        image = Image.fromarray(rgb)
        reference = np.asarray(image.convert('L')).astype(int)
        assert np.abs(gray(to_bgr(rgb)).astype(int) - reference).max() <= 1
        assert difference(solarize(to_bgr(rgb)), TF.solarize(image, 128)).max() == 0


def test_the_image_given_is_left_alone():
    rgb = photographs()[0]
    before = rgb.copy()
    adjust(rgb, [('brightness', 1.2), ('hue', 0.1), ('saturation', 0.7)])
    np.testing.assert_array_equal(rgb, before)


def test_factors_have_torchvisions_distribution():
    jitter = ColorJitter(0.4, 0.4, (0.2, 1.1), 0.1)
    reference = T.ColorJitter(0.4, 0.4, (0.2, 1.1), 0.1)
    np.random.seed(0)
    torch.manual_seed(0)
    ours = [dict(jitter.draw()) for _ in range(3000)]
    theirs = [
        T.ColorJitter.get_params(
            reference.brightness,
            reference.contrast,
            reference.saturation,
            reference.hue,
        )[1:]
        for _ in range(3000)
    ]
    for i, name in enumerate(jitter.ranges):
        mine = [factors[name] for factors in ours]
        assert stats.ks_2samp(mine, [t[i] for t in theirs]).pvalue > 0.01
    values = np.array([list(jitter_.values()) for jitter_ in ours[:2]])
    assert values[0].tolist() != values[1].tolist()


def test_all_orders_are_equally_likely_and_do_not_depend_on_the_factors():
    np.random.seed(0)
    jitter = ColorJitter(0.4, 0.4, 0.4, 0.1)
    drawn = [jitter.draw() for _ in range(6000)]
    orders = {}
    for steps in drawn:
        orders.setdefault(tuple(name for name, _ in steps), []).append(dict(steps))
    counts = [len(members) for members in orders.values()]
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > 0.01
    first = [dict(s)['brightness'] for s in drawn if s[0][0] == 'brightness']
    last = [dict(s)['brightness'] for s in drawn if s[-1][0] == 'brightness']
    assert stats.ks_2samp(first, last).pvalue > 0.01


def test_jitter_is_left_out_with_its_probability():
    np.random.seed(0)
    jitter = ColorJitter(0.4, prob=0.8)
    drawn = sum(bool(jitter.draw()) for _ in range(3000))
    assert stats.binomtest(drawn, 3000, 0.8).pvalue > 0.01
    rgb = photographs()[0]
    never = ColorJitter(0.4, prob=0.0)(dict(img=rgb))['img']
    always = ColorJitter(0.4)(dict(img=rgb))['img']
    assert (never == rgb).all() and (always != rgb).any()


@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        (dict(brightness=-1), 'brightness must be'),
        (dict(hue=0.6), 'hue must be'),
        (dict(contrast=(1.2, 0.8)), 'contrast must be'),
        (dict(prob=1.5), 'prob'),
    ],
)
def test_wrong_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        ColorJitter(**kwargs)
