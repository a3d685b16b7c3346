"""From a config and a checkpoint to a frozen network and its data."""

import pytest
import torch
from mmengine.config import Config

from mmbam.evaluation import build_loader, extract_features
from mmbam.evaluation.frozen import (
    build_frozen,
    class_folders,
    evaluation_dataset,
    plain_pipeline,
)
from tests.helpers.folders import make_config, make_folders, slow_features


@pytest.fixture
def made(tmp_path):
    make_folders(tmp_path)
    path, weights, backbone = make_config(tmp_path)
    return Config.fromfile(path), weights, backbone


def test_features_are_those_of_the_config_and_the_checkpoint(made, tmp_path):
    cfg, weights, backbone = made
    frozen, preprocessor = build_frozen(cfg, weights)
    for split in ('train', 'test'):
        dataset = evaluation_dataset(cfg, split)
        features, labels = extract_features(
            frozen,
            build_loader(dataset, num_workers=0),
            data_preprocessor=preprocessor,
            progress=False,
        )
        expected, expected_labels = slow_features(backbone, tmp_path / split)
        assert (labels.numpy() == expected_labels).all()
        torch.testing.assert_close(features, torch.from_numpy(expected))


def test_without_a_checkpoint_the_network_is_random(made):
    cfg, _, backbone = made
    frozen, _ = build_frozen(cfg, None)
    assert not torch.equal(frozen.pos_embed, backbone.pos_embed)


def test_a_knn_hook_names_the_data(made):
    cfg, *_ = made
    hook = dict(
        type='mmbam.KNNHook',
        train_dataset=dict(type='A', pipeline=[dict(type='Plain')]),
        test_dataset=dict(type='B', pipeline=[dict(type='Plain')]),
    )
    cfg.custom_hooks = [hook]
    for split in ('train', 'test'):
        assert evaluation_dataset(cfg, split) == hook[f'{split}_dataset']


def test_folders_and_sizes_take_the_place_of_the_configs(made, tmp_path):
    cfg, *_ = made
    train = evaluation_dataset(cfg, 'train', tmp_path / 'test')
    test = evaluation_dataset(cfg, 'test', size=8)
    assert train['data_root'] == str(tmp_path / 'test')
    assert test['data_root'] == cfg.val_dataloader.dataset.data_root
    images = build_loader(test, num_workers=0).dataset
    assert images[0]['inputs'].shape == (3, 8, 8)


def test_what_is_missing_in_a_config_is_named(tmp_path):
    with pytest.raises(ValueError, match='no model.backbone'):
        build_frozen(Config(), None)
    with pytest.raises(ValueError, match='no data_preprocessor'):
        build_frozen(Config(dict(model=dict(backbone=dict(type='A')))), None)
    with pytest.raises(ValueError, match='no test pipeline'):
        evaluation_dataset(Config(), 'test')
    with pytest.raises(ValueError, match='no train set'):
        evaluation_dataset(Config(), 'train', size=8)


def test_folders_without_classes_or_images_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match='no folder.*gone'):
        class_folders(tmp_path / 'gone', plain_pipeline(8))
    with pytest.raises(ValueError, match='holds no folder'):
        class_folders(tmp_path, plain_pipeline(8))
    (tmp_path / 'cats').mkdir()
    with pytest.raises(ValueError, match='empty: cats'):
        class_folders(tmp_path, plain_pipeline(8))
