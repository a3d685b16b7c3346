"""MultiCrop makes the views of DINO's PIL pipeline, several at a time."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision.transforms.functional as TF
from mmcv.transforms import Compose
from mmengine.config import Config
from mmengine.dataset import default_collate
from mmengine.registry import DefaultScope
from mmpretrain.models import SelfSupDataPreprocessor
from PIL import Image, ImageFilter
from scipy import stats

from mmbam.datasets import BoxTable
from mmbam.datasets.transforms import MultiCrop
from mmbam.datasets.transforms.blur import gaussian_blur
from mmbam.datasets.transforms.color import adjust, gray, solarize
from mmbam.datasets.transforms.resize import resize_bicubic
from mmbam.datasets.transforms.view import View, ViewParams, render
from tests.helpers.photographs import difference, photographs, to_bgr

CONFIG = Path(__file__).parents[3] / 'configs/_base_/datasets/imagenet_2x224_6x96.py'
GLOBAL = dict(num=2, size=48, area=(0.25, 1.0))
LOCAL = dict(num=3, size=32, area=(0.05, 0.25))
PLAIN = dict(flip=0.0, jitter=0.0, gray=0.0, blur=0.0, solarize=0.0)


def by_torchvision(rgb, view):
    """The view that torchvision and PIL make from the same draws."""
    image = TF.resized_crop(
        Image.fromarray(rgb),
        *view.window,
        [view.size] * 2,
        TF.InterpolationMode.BICUBIC,
    )
    image = TF.hflip(image) if view.flip else image
    image = TF.vflip(image) if view.vertical_flip else image
    for name, factor in view.jitter:
        image = getattr(TF, f'adjust_{name}')(image, factor)
    image = TF.rgb_to_grayscale(image, 3) if view.gray else image
    if view.sigma is not None:
        image = image.filter(ImageFilter.GaussianBlur(view.sigma))
    return TF.solarize(image, 128) if view.solarize else image


@pytest.mark.parametrize('size', [32, 96, 224])
def test_resizing_equals_pils(size):
    for rgb in photographs():
        reference = Image.fromarray(rgb).resize((size, size), Image.BICUBIC)
        error = difference(resize_bicubic(to_bgr(rgb), size, size), reference)
        assert error.mean() < 0.02 and error.max() <= 2


def test_views_equal_torchvisions_with_the_same_draws():
    np.random.seed(0)
    kind = View(size=64, area=(0.1, 1.0), blur=0.7, vertical_flip=0.5)
    errors = []
    for rgb in photographs():
        views = [kind.draw(*rgb.shape[:2]) for _ in range(10)]
        for view in views:
            made = render(to_bgr(rgb), view)
            errors.append(difference(made, by_torchvision(rgb, view)).ravel())
    errors = np.concatenate(errors)
    assert errors.mean() < 0.8 and np.quantile(errors, 0.999) <= 8


def test_a_solarized_view_equals_torchvisions_but_at_the_threshold():
    np.random.seed(0)
    kind = View(size=64, area=(0.1, 1.0), solarize=1.0)
    for rgb in photographs():
        view = kind.draw(*rgb.shape[:2])
        error = difference(render(to_bgr(rgb), view), by_torchvision(rgb, view))
        assert error.mean() < 0.8


def test_the_steps_come_in_the_order_of_the_release():
    """The very pixels: a blur of what is solarized already is hard to tell."""
    img = to_bgr(photographs()[0])
    jitter = [('brightness', 1.3), ('hue', 0.2)]
    window = (0, 0, *img.shape[:2])
    view = render(img, ViewParams(64, window, False, jitter, True, 1.5, True))
    steps = adjust(resize_bicubic(img, 64, 64), jitter)
    steps = solarize(gaussian_blur(gray(steps), 1.5))
    assert all(np.array_equal(view[..., i], steps) for i in range(3))


def test_choices_have_their_probabilities_and_are_independent():
    np.random.seed(0)
    kind = View(size=8, area=(0.1, 1.0), solarize=0.2, blur=0.3, vertical_flip=0.1)
    draws = [kind.draw(375, 500) for _ in range(3000)]
    choices = np.array(
        [(d.flip, bool(d.jitter), d.gray, d.sigma is not None, *d[6:8]) for d in draws]
    )
    for column, probability in zip(choices.T, (0.5, 0.8, 0.2, 0.3, 0.2, 0.1)):
        assert stats.binomtest(int(column.sum()), 3000, probability).pvalue > 0.01
    correlation = np.corrcoef(choices.T.astype(float)) - np.eye(6)
    assert np.abs(correlation).max() < 0.06


def test_views_come_in_order_with_draws_of_their_own():
    np.random.seed(0)
    views = MultiCrop([GLOBAL, LOCAL])(dict(img=photographs()[0]))['img']
    assert [view.shape for view in views] == 2 * [(48, 48, 3)] + 3 * [(32, 32, 3)]
    assert all(view.dtype == np.uint8 for view in views)
    whole = dict(PLAIN, size=16, num=2, area=(1, 1), aspect=(1, 1), jitter=1.0)
    first, second = MultiCrop([whole])(dict(img=photographs()[0][:100, :100]))['img']
    assert (first != second).any()  # the same pixels: only the jitter can differ


def test_the_same_seed_gives_the_same_views_and_another_seed_others():
    image = photographs()[0]
    crop = MultiCrop([GLOBAL, LOCAL])
    made = []
    for seed in (0, 0, 1):
        np.random.seed(seed)
        torch.manual_seed(len(made))
        made.append(crop(dict(img=image))['img'])
    assert all((a == b).all() for a, b in zip(made[0], made[1]))
    assert all((a != b).any() for a, b in zip(made[0], made[2]))


def test_the_image_given_is_left_alone():
    image = photographs()[0]
    before = image.copy()
    MultiCrop([dict(GLOBAL, num=10)])(dict(img=image))
    np.testing.assert_array_equal(image, before)


@pytest.mark.parametrize('shape', [(1, 1), (5, 3000), (3000, 5), (2, 3)])
def test_very_small_and_very_long_images_have_views(shape):
    image = np.full((*shape, 3), 7, np.uint8)
    views = MultiCrop([dict(PLAIN, **GLOBAL), dict(PLAIN, **LOCAL)])(dict(img=image))
    assert all((view == 7).all() for view in views['img'])


def test_crops_follow_the_table_of_boxes():
    image = np.zeros((100, 100, 3), np.uint8)
    image[50:] = 255
    crop = MultiCrop([dict(PLAIN, num=8, size=8, area=(0.01, 0.02))])
    boxes = BoxTable(2)
    boxes.write(torch.tensor([[0.1, 0.1, 0.3, 0.9], [0.7, 0.1, 0.9, 0.9]]))
    crop.set_boxes(boxes)
    for sample, value in ((0, 0), (1, 255)):
        views = crop(dict(img=image, sample_idx=sample))['img']
        assert all((view == value).all() for view in views)
    with pytest.raises(ValueError, match='sample_idx'):
        crop(dict(img=image))
    with pytest.raises(ValueError, match='fixed box'):
        MultiCrop([GLOBAL], box='center').set_boxes(boxes)


def test_the_pipeline_of_the_configs_feeds_the_preprocessor(tmp_path):
    rgb = photographs()[0]
    Image.fromarray(rgb).save(tmp_path / 'a.png')
    cfg = Config.fromfile(CONFIG)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        pipeline = Compose(cfg.train_pipeline)
    pipeline = pickle.loads(pickle.dumps(pipeline))  # as a spawned worker gets it
    sample = dict(img_path=str(tmp_path / 'a.png'), sample_idx=0)
    packed = [pipeline(dict(sample)) for _ in range(2)]
    sizes = 2 * [224] + 6 * [96]
    for view, size in zip(packed[0]['inputs'], sizes):
        assert view.shape == (3, size, size) and view.dtype == torch.uint8
    cfg.data_preprocessor.pop('type')
    preprocessor = SelfSupDataPreprocessor(**cfg.data_preprocessor)
    batch = preprocessor(default_collate(packed))['inputs']
    assert [tuple(views.shape) for views in batch] == [(2, 3, s, s) for s in sizes]


def test_the_channels_of_a_view_reach_the_model_as_red_green_blue():
    image = np.zeros((40, 40, 3), np.uint8)
    image[..., 2] = 255  # red, in OpenCV's order
    crop = MultiCrop([dict(PLAIN, size=8, area=(0.5, 1))])
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        pipeline = Compose([crop, dict(type='PackInputs')])
    batch = default_collate([pipeline(dict(img=image))])
    view = SelfSupDataPreprocessor([0.0] * 3, [255.0] * 3, to_rgb=True)(batch)['inputs']
    assert view[0].amin((0, 2, 3)).tolist() == [1, 0, 0]
    assert view[0].amax((0, 2, 3)).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ('views', 'message'),
    [
        ([], 'at least one'),
        ([dict(GLOBAL, blurr=1.0)], "unknown arguments \\['blurr'\\]"),
        ([dict(size=8)], "lacks \\['area'\\]"),
        ([dict(GLOBAL, size=0)], 'size of a view'),
        ([dict(GLOBAL, num=1.5)], 'num of a view'),
        ([dict(GLOBAL, area=(0.5, 0.1))], 'area of a view must be'),
        ([dict(GLOBAL, gray=2)], 'gray of a view'),
        ([dict(GLOBAL, strength=(0.4, 0.4))], 'strength of a view'),
        ([dict(GLOBAL, solarise=0.2)], "^MultiCrop: 'solarise' is now 'solarize'.$"),
        ([GLOBAL, dict(GLOBAL, grey=0.2)], "^MultiCrop: 'grey' is now 'gray'.$"),
    ],
)
def test_wrong_views_are_refused(views, message):
    with pytest.raises(ValueError, match=message):
        MultiCrop(views)


def test_an_image_without_3_channels_or_of_another_type_is_refused():
    for image in (np.zeros((8, 8, 3), np.float64), np.zeros((8, 8), np.uint8)):
        with pytest.raises(TypeError, match='with 3 channels, got'):
            MultiCrop([GLOBAL])(dict(img=image))
