"""Sizes of views, from the sizes of images and patches."""

import pytest

from mmbam.recipes.views import view_pipeline, view_sizes


@pytest.mark.parametrize(
    'side, sizes',
    [(8, (16, 8)), (28, (32, 16)), (32, (32, 16)), (160, (160, 72)), (3000, (224, 96))],
)
def test_views_are_as_large_as_the_images_up_to_those_of_the_paper(side, sizes):
    assert view_sizes(side) == sizes


@pytest.mark.parametrize('side', [20, 32, 100, 160, 4000])
@pytest.mark.parametrize('patch', [4, 8, 14, 16])
def test_views_are_whole_patches_and_at_least_four_of_them(side, patch):
    size, local = view_sizes(side, patch)
    assert size % patch == local % patch == 0
    assert local < size <= 224
    assert size >= 4 * patch


def test_small_views_are_blurred_less():
    sigmas = {
        size: view_pipeline(size, 16, 0)[1]['views'][0]['sigma'] for size in (32, 224)
    }
    assert sigmas == {32: (0.1, 0.29), 224: (0.1, 2.0)}
