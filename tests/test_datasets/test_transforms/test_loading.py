"""LoadImage with any number of bands and bits."""

import pickle

import cv2
import numpy as np
import pytest
import tifffile
import torch
from mmcv.transforms import Compose
from mmengine.registry import DefaultScope

from mmbam.datasets.transforms import LoadImage, MultiCrop, loading
from mmbam.datasets.transforms.loading import WrongBandsError
from mmbam.utils.errors import InputError

FIVE = np.random.default_rng(0).integers(0, 65536, (20, 30, 5)).astype(np.uint16)


@pytest.fixture
def folder(tmp_path):
    tifffile.imwrite(tmp_path / 'five.tif', FIVE, photometric=1, planarconfig='contig')
    cv2.imwrite(str(tmp_path / 'three.png'), FIVE[..., :3])
    cv2.imwrite(str(tmp_path / 'dark.png'), FIVE[..., :3] >> 4)
    return tmp_path


def load(folder, name, **kwargs):
    return LoadImage(**kwargs)(dict(img_path=str(folder / name)))


def test_every_bit_arrives_as_float32(folder):
    results = load(folder, 'five.tif', channels=5, depth='full')
    assert results['img'].dtype == np.float32
    np.testing.assert_array_equal(results['img'], FIVE)
    assert results['img_shape'] == (20, 30)
    assert results['value_range'] == (0, 65535)
    bgr = load(folder, 'three.png', depth='full', bits=12)
    np.testing.assert_array_equal(bgr['img'], FIVE[..., :3])  # as OpenCV wrote it
    assert bgr['value_range'] == (0, 4095)
    eight = load(folder, 'five.tif', channels=5, bits=16)
    np.testing.assert_array_equal(eight['img'], FIVE >> 8)
    assert eight['img'].dtype == np.uint8 and 'value_range' not in eight


def test_the_first_image_with_other_bands_stops_the_run_and_a_later_one_does_not(
    folder,
):
    loader = LoadImage(channels=5, depth='full')
    with pytest.raises(
        WrongBandsError, match="three.png' does not fit: it has 3 bands"
    ):
        loader(dict(img_path=str(folder / 'three.png')))
    assert issubclass(WrongBandsError, InputError)
    assert loader(dict(img_path=str(folder / 'five.tif'))) is not None
    assert loader(dict(img_path=str(folder / 'three.png'))) is None
    (reason,) = loader.errors.paths().values()
    assert '3 bands of uint16' in reason


def test_less_than_16_bits_are_said_once_by_all_workers(folder, monkeypatch):
    said = []
    monkeypatch.setattr(loading, 'print_log', lambda message, *_: said.append(message))
    loader = LoadImage()
    for name in ('three.png', 'dark.png', 'dark.png'):
        results = loader(dict(img_path=str(folder / name)))
    np.testing.assert_array_equal(results['img'], FIVE[..., :3] >> 8)
    assert len(said) == 1 and 'use 12 bits (by the highest value)' in said[0]
    assert loader._said.is_shared(), 'workers see that one of them said it'


def test_a_pipeline_with_bands_can_be_sent_to_a_worker(folder):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        pipeline = Compose(
            [
                dict(type='mmbam.LoadImage', channels=5, depth='full'),
                MultiCrop([dict(num=2, size=8, area=(0.5, 1))], channels=5),
                dict(type='PackInputs'),
            ]
        )
    pipeline = pickle.loads(pickle.dumps(pipeline))
    views = pipeline(dict(img_path=str(folder / 'five.tif')))['inputs']
    assert [tuple(v.shape) for v in views] == [(5, 8, 8)] * 2
    assert all(v.dtype == torch.float32 for v in views)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(channels=0), 'channels must be'),
        (dict(channels='bgr'), 'channels must be'),
        (dict(depth=16), "depth must be 8 or 'full', got 16"),
        (dict(bits=7), 'bits must be None or an int from 8 to 16, got 7'),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LoadImage(**arguments)
