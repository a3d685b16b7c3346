"""Training and test images of a labeled folder."""

import shutil

import pytest

from mmbam.evaluation.labeled import train_and_test
from mmbam.evaluation.loaders import build_dataset
from tests.helpers.folders import write_photos


@pytest.fixture(scope='module')
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp('labeled') / 'photos')


def paths(dataset):
    dataset = build_dataset(dataset)
    return {dataset.get_data_info(i)['img_path'] for i in range(len(dataset))}


def test_a_fifth_of_each_class_is_kept_for_testing(photos):
    train, test, number = train_and_test(str(photos), [])
    assert (len(paths(train)), len(paths(test)), number) == (16, 4, 16)
    assert not paths(train) & paths(test)


@pytest.mark.parametrize('name', ['val', 'test'])
def test_folders_for_training_and_testing_are_taken_as_they_are(photos, tmp_path, name):
    for part in ('train', name):
        shutil.copytree(photos, tmp_path / part)
    (tmp_path / name / 'a' / '00.png').unlink()
    train, test, number = train_and_test(str(tmp_path), [])
    assert (len(paths(train)), len(paths(test)), number) == (20, 19, 20)
