"""FolderDataset: all images of a folder, with or without classes."""

import os

import numpy as np
import pytest
from mmengine.registry import DATASETS
from mmpretrain.datasets import CustomDataset
from PIL import Image

from mmbam.datasets import FolderDataset, dataset_of
from mmbam.evaluation.frozen import class_folders
from mmbam.utils.errors import InputError


@pytest.fixture
def folder(tmp_path):
    """Four images of two classes, a hidden folder, and two images in no class."""
    for name in (
        'cats/2.png',
        'cats/1/a.WEBP',
        'cats and dogs/b.tiff',
        'dogs/.c.png',
        'dogs/c.png',
        'a.gif',
        '.thumbnails/x/1.png',
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), 9, np.uint8)).save(path)
    return tmp_path


def paths(dataset):
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    return [os.path.relpath(info['img_path'], dataset.img_prefix) for info in infos]


def test_without_labels_every_image_counts(folder, caplog):
    load = [dict(type='mmbam.LoadImage', max_errors=0)]
    dataset = DATASETS.build(dataset_of(folder, pipeline=load))
    assert isinstance(dataset, FolderDataset)
    assert paths(dataset) == [
        'a.gif',
        'cats and dogs/b.tiff',
        'cats/1/a.WEBP',
        'cats/2.png',
        'dogs/c.png',
    ]
    for i in range(5):
        assert dataset[i]['img'].shape == (8, 8, 3)
    assert dataset.serialize_data, 'so workers copy no lists of Python objects'


def test_folders_are_classes_and_hidden_ones_are_not(folder):
    dataset = DATASETS.build(class_folders(folder, []))
    assert dataset.CLASSES == ('cats', 'cats and dogs', 'dogs')
    assert dataset.get_gt_labels().tolist() == [0, 0, 1, 2]
    assert paths(dataset)[0] == 'cats/1/a.WEBP'


@pytest.mark.parametrize('with_label', [False, True])
def test_the_order_is_that_of_mmpretrain(folder, with_label):
    """So boxes and resumed runs of older checkpoints fit their images."""
    (folder / '.thumbnails/x/1.png').unlink()
    known = ('.png', '.webp', '.tiff', '.gif')
    theirs = CustomDataset(
        data_root=str(folder),
        with_label=with_label,
        extensions=known,
        classes=None if not with_label else ['.thumbnails', 'a', 'b', 'c'],
    )
    assert paths(FolderDataset(str(folder), with_label)) == paths(theirs)


def test_a_folder_without_class_folders_or_with_others_is_refused(folder):
    with pytest.raises(InputError, match='2 classes are given, but .* holds 3 folders'):
        FolderDataset(str(folder), with_label=True, classes=['a', 'b'])
    with pytest.raises(InputError, match='must hold one folder of images per class'):
        FolderDataset(str(folder / 'dogs'), with_label=True)
    with pytest.raises(InputError, match='There is no folder'):
        dataset_of(folder / 'gone')


def test_lists_of_images_still_work(folder):
    (folder / 'list.txt').write_text('cats/2.png\ndogs/c.png\n')
    dataset = FolderDataset(str(folder), ann_file='list.txt')
    assert paths(dataset) == ['cats/2.png', 'dogs/c.png']
