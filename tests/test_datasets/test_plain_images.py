"""Plain images are the training images, whole."""

import pickle

import cv2
import numpy as np
import pytest
from mmengine.dataset import BaseDataset
from mmpretrain.datasets import CIFAR10, CustomDataset
from PIL import Image

from mmbam.datasets import PlainImages
from mmbam.datasets.transforms import SeedBySample


class Crop:
    """Stands for any transform that uses boxes."""

    def set_boxes(self, table):
        pass

    def __call__(self, results):
        raise AssertionError('the crop and what follows it must not run')


class Mirror:
    def __call__(self, results):
        return dict(results, img=results['img'][:, ::-1])


class Small(CIFAR10):
    """CIFAR's files without CIFAR's images."""

    url = filename = tgz_md5 = base_folder = ''
    train_list = [['data_batch_1', None]]
    meta = dict(filename='batches.meta', key='label_names', md5=None)

    def _check_integrity(self):
        return True


@pytest.fixture
def photo(tmp_path):
    image = np.random.default_rng(0).integers(0, 255, (3, 4, 3), np.uint8)
    image = cv2.resize(image, (90, 60), interpolation=cv2.INTER_CUBIC)
    folder = tmp_path / 'photos'
    folder.mkdir()
    cv2.imwrite(str(folder / 'a.png'), image)
    return folder, image


def folder_dataset(folder, *front):
    pipeline = [dict(type='LoadImageFromFile'), *front, Crop()]
    return CustomDataset(data_root=str(folder), with_label=False, pipeline=pipeline)


def test_an_image_is_a_bicubic_resize_of_what_the_crop_would_see(photo):
    folder, image = photo
    plain = PlainImages([folder_dataset(folder, SeedBySample(), Mirror())], 32)
    tensor, error = plain[0]
    assert error == '' and tensor.shape == (3, 32, 32)
    expected = Image.fromarray(image[:, ::-1]).resize((32, 32), Image.BICUBIC)
    difference = tensor.permute(1, 2, 0).numpy() - np.array(expected, int)
    assert abs(difference).max() <= 1


def test_samples_are_counted_over_all_data_sets(photo, tmp_path):
    folder, _ = photo
    images = np.random.default_rng(1).integers(0, 255, (3, 3, 32, 32), np.uint8)
    batch = dict(data=images.reshape(3, -1), labels=[0, 1, 2])
    (tmp_path / 'data_batch_1').write_bytes(pickle.dumps(batch))
    names = dict(label_names=[str(i) for i in range(10)])
    (tmp_path / 'batches.meta').write_bytes(pickle.dumps(names))
    cifar = Small(data_root=str(tmp_path), pipeline=[Crop()], download=False)
    plain = PlainImages([folder_dataset(folder), cifar], 32)
    assert len(plain) == 4 and plain.lengths == [1, 3]
    for i in range(3):
        np.testing.assert_array_equal(plain[1 + i][0].numpy(), images[i])


@pytest.mark.parametrize('mode', ['L', 'RGBA', 'CMYK', 'I;16', 'P', '1'])
def test_images_of_any_kind_are_read(tmp_path, mode):
    (tmp_path / 'images').mkdir()
    suffix = 'jpg' if mode == 'CMYK' else 'png'
    if mode == 'I;16':
        image = Image.fromarray(np.full((20, 30), 255 << 8, np.uint16))
    else:
        image = Image.new('RGB', (30, 20), (255, 255, 255)).convert(mode)
    image.save(tmp_path / f'images/a.{suffix}')
    tensor, error = PlainImages([folder_dataset(tmp_path / 'images')], 16)[0]
    assert error == '' and tensor.shape == (3, 16, 16)
    assert (tensor >= 254).all()  # white; an image that cannot be read is black


def test_an_image_that_cannot_be_read_is_black_and_says_why(photo):
    folder, _ = photo
    plain = PlainImages([folder_dataset(folder)], 16)
    (folder / 'a.png').write_bytes((folder / 'a.png').read_bytes()[:20])
    tensor, error = plain[0]
    assert not tensor.any()
    assert error.startswith(str(folder / 'a.png') + ': ')
    (folder / 'a.png').unlink()
    assert 'FileNotFoundError' in plain[0][1]


def test_a_pipeline_that_drops_an_image_is_an_image_not_read(photo):
    plain = PlainImages([folder_dataset(photo[0], lambda results: None)], 16)
    assert 'the pipeline drops it' in plain[0][1]


def test_a_pipeline_without_boxes_is_refused():
    class Nothing(BaseDataset):
        def load_data_list(self):
            return [dict()]

    with pytest.raises(ValueError, match='No transform of Nothing.pipeline uses boxes'):
        PlainImages([Nothing(pipeline=[Mirror()])], 16)
