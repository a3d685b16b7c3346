"""ContrastiveCrop stands in for RandomResizedCrop in any mmpretrain pipeline."""

import numpy as np
import pytest
import torch
from mmengine.registry import DefaultScope
from mmpretrain.registry import TRANSFORMS

from mmbam.datasets import BoxTable
from mmbam.datasets.transforms import ContrastiveCrop
from tests.helpers.photographs import photographs


def table(*boxes):
    made = BoxTable(len(boxes))
    made.write(torch.tensor(boxes))
    return made


def build(**cfg):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return TRANSFORMS.build(cfg)


def crop_view(kind, backend):
    """The views of mmpretrain's SimCLR and MoCo v3 configs, with any crop."""
    crop = dict(type=kind, scale=32, crop_ratio_range=(0.2, 1.0), backend=backend)
    flip = dict(type='RandomFlip', prob=0.5)
    solarize = dict(type='Solarize', thr=128, prob=0.2)
    return build(
        type='MultiView', num_views=[1, 1], transforms=[[crop, flip], [crop, solarize]]
    )


@pytest.mark.parametrize('backend', ['cv2', 'pillow'])
@pytest.mark.parametrize('with_table', [False, True])
def test_without_boxes_a_pipeline_gives_the_pixels_of_random_resized_crop(
    backend, with_table
):
    ours, theirs = (
        crop_view(kind, backend)
        for kind in ('mmbam.ContrastiveCrop', 'RandomResizedCrop')
    )
    if with_table:
        for pipeline in ours.pipelines:
            pipeline.transforms[0].set_boxes(BoxTable(4))
    for i, image in enumerate(photographs()):
        results = []
        for transform in (ours, theirs):
            np.random.seed(i)
            results.append(transform(dict(img=image.copy(), sample_idx=i))['img'])
        for mine, reference in zip(*results):
            np.testing.assert_array_equal(mine, reference)


def test_a_crop_is_cut_around_the_box_of_its_sample():
    image = np.zeros((100, 100, 3), np.uint8)
    image[:, 50:] = 255
    left, right = (0.2, 0.05, 0.8, 0.2), (0.2, 0.8, 0.8, 0.95)
    crop = ContrastiveCrop(16, crop_ratio_range=(0.01, 0.04))
    crop.set_boxes(table(left, right))
    for sample, value in ((0, 0), (1, 255)):
        for _ in range(20):
            results = crop(dict(img=image, sample_idx=sample))
            assert (results['img'] == value).all()
            assert results['img_shape'] == (16, 16, 3)


def test_a_table_that_changes_moves_the_next_crop():
    image = np.arange(100, dtype=np.uint8)[:, None, None].repeat(100, 1).repeat(3, 2)
    boxes = BoxTable(1)
    crop = ContrastiveCrop(8, crop_ratio_range=(0.01, 0.02))
    crop.set_boxes(boxes)
    boxes.write(torch.tensor([[0.1, 0.1, 0.2, 0.2]]))
    assert crop(dict(img=image, sample_idx=0))['img'].mean() < 30
    boxes.write(torch.tensor([[0.8, 0.1, 0.9, 0.2]]))
    assert crop(dict(img=image, sample_idx=0))['img'].mean() > 70


def test_simccrop_is_the_central_box():
    assert ContrastiveCrop(8, box='center').box == (0.25, 0.25, 0.75, 0.75)
    image = np.zeros((100, 100, 3), np.uint8)
    image[20:80, 20:80] = 255
    crop = ContrastiveCrop(8, crop_ratio_range=(0.002, 0.005), box='center')
    for _ in range(20):
        assert (crop(dict(img=image))['img'] == 255).all()


def test_a_table_needs_to_know_the_sample():
    crop = ContrastiveCrop(8)
    crop.set_boxes(BoxTable(1))
    with pytest.raises(ValueError, match='sample_idx'):
        crop(dict(img=photographs()[0]))


def test_a_fixed_box_takes_no_table():
    with pytest.raises(ValueError, match='fixed box'):
        ContrastiveCrop(8, box='center').set_boxes(BoxTable(1))


def test_alpha_must_be_positive():
    with pytest.raises(ValueError, match='alpha must be above 0, got 0'):
        ContrastiveCrop(8, alpha=0)
