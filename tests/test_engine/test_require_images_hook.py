"""RequireImagesHook: a run on nothing does not begin."""

from types import SimpleNamespace

import pytest

from mmbam.engine.hooks import RequireImagesHook


class Data(list):
    ann_file = 'data/coco/instances.json'
    data_prefix = dict(img='data/coco/train')


def begin(dataset):
    loader = SimpleNamespace(dataset=dataset)
    RequireImagesHook().before_train(SimpleNamespace(train_dataloader=loader))


def test_an_empty_training_set_is_named():
    with pytest.raises(ValueError, match='Data .*coco/instances.json, data/coco/train'):
        begin(Data())


def test_one_image_is_enough():
    begin(Data([1]))
