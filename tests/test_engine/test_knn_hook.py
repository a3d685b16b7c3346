"""KNNHook: the right figure at the right time, and training none the wiser."""

import json

import cv2
import numpy as np
import pytest
import torch
from mmengine.model import BaseModel
from mmengine.runner import Runner
from mmpretrain.models import SelfSupDataPreprocessor
from torch import nn

from mmbam.engine.hooks import KNNHook
from mmbam.evaluation import build_loader, extract_features, knn_accuracy


class Toy(BaseModel):
    """Trains with dropout, so that its weights show any disturbed random state."""

    def __init__(self):
        super().__init__(SelfSupDataPreprocessor(mean=[127] * 3, std=[64] * 3))
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5)
        )
        self.target_backbone = nn.Sequential(nn.Flatten())

    def forward(self, inputs, data_samples=None, mode='loss'):
        return dict(loss=self.backbone(inputs).square().mean())


@pytest.fixture
def folders(tmp_path):
    """Class folders whose images differ by brightness: 24 to train, 8 to test."""
    rng = np.random.default_rng(0)
    for split, number in (('train', 12), ('test', 4)):
        for label, brightness in enumerate((60, 190)):
            folder = tmp_path / split / f'class{label}'
            folder.mkdir(parents=True)
            for i in range(number):
                image = rng.normal(brightness, 60, (8, 8, 3)).clip(0, 255)
                cv2.imwrite(str(folder / f'{i}.png'), image.astype(np.uint8))
    return tmp_path


def dataset(folder):
    pipeline = [dict(type='LoadImageFromFile'), dict(type='PackInputs')]
    return dict(
        type='mmpretrain.CustomDataset', data_root=str(folder), pipeline=pipeline
    )


def hook_cfg(folders, **kwargs):
    cfg = dict(
        type='mmbam.KNNHook',
        train_dataset=dataset(folders / 'train'),
        test_dataset=dataset(folders / 'test'),
        interval=2,
        fraction=0.5,
        k=3,
        num_workers=0,
    )
    return {**cfg, **kwargs}


def train(folders, hooks, name='run', epochs=3, **kwargs):
    torch.manual_seed(0)
    runner = Runner(
        Toy(),
        work_dir=str(folders / name),
        train_dataloader=dict(
            batch_size=8,
            num_workers=0,
            dataset=dataset(folders / 'train'),
            sampler=dict(type='DefaultSampler', shuffle=True),
            collate_fn=dict(type='default_collate'),
        ),
        train_cfg=dict(by_epoch=True, max_epochs=epochs),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.01)),
        custom_hooks=hooks,
        default_scope='mmpretrain',
        experiment_name=f'{folders.name}-{name}',
        randomness=dict(seed=0),
        log_level='WARNING',
        **kwargs,
    )
    runner.train()
    return runner


def test_evaluates_at_the_interval_and_at_the_end(folders):
    runner = train(folders, [hook_cfg(folders)])
    history = runner.message_hub.get_info('knn_history')
    assert [entry['epoch'] for entry in history] == [2, 3]
    assert [entry['iter'] for entry in history] == [6, 9]
    top1 = [entry['top1'] for entry in history]
    assert runner.message_hub.get_scalar('knn/top1').data[0].tolist() == top1

    log = folders.rglob('vis_data/scalars.json')
    lines = [json.loads(line) for line in next(log).read_text().splitlines()]
    logged = [(line['step'], line['knn/top1']) for line in lines if 'knn/top1' in line]
    assert logged == [(6, top1[0]), (9, top1[1])]


def test_the_figure_is_that_of_the_evaluators(folders):
    runner = train(folders, [hook_cfg(folders)])
    half = build_loader(dataset(folders / 'train'), num_workers=0, fraction=0.5)
    test = build_loader(dataset(folders / 'test'), num_workers=0)
    expected = knn_accuracy(
        *extract_features(runner.model, half),
        *extract_features(runner.model, test),
        k=3,
    )
    last = runner.message_hub.get_info('knn_history')[-1]
    assert {name: last[name] for name in expected} == expected


def test_training_is_the_same_with_and_without(folders):
    with_hook = train(folders, [hook_cfg(folders, interval=1)], 'with')
    without = train(folders, [], 'without')
    expected = without.model.state_dict()
    for name, value in with_hook.model.state_dict().items():
        assert torch.equal(value, expected[name]), name


def test_the_teacher_is_asked_for_by_name(folders):
    runner = train(folders, [hook_cfg(folders, network='teacher', k=1)], epochs=1)
    features = []
    for split, fraction in (('train', 0.5), ('test', 1)):
        loader = build_loader(
            dataset(folders / split), num_workers=0, fraction=fraction
        )
        features += extract_features(
            nn.Flatten(), loader, data_preprocessor=runner.model.data_preprocessor
        )
    history = runner.message_hub.get_info('knn_history')
    assert history[-1]['top1'] == knn_accuracy(*features, k=1)['top1']


def test_the_history_survives_a_resume(folders):
    checkpoints = dict(checkpoint=dict(type='CheckpointHook', interval=1))
    train(folders, [hook_cfg(folders)], 'a', epochs=2, default_hooks=checkpoints)
    resumed = train(
        folders,
        [hook_cfg(folders)],
        'b',
        epochs=4,
        resume=True,
        load_from=str(folders / 'a' / 'epoch_2.pth'),
    )
    history = resumed.message_hub.get_info('knn_history')
    assert [entry['epoch'] for entry in history] == [2, 4]


def test_too_many_neighbours_are_refused_before_training(folders):
    with pytest.raises(ValueError, match='k=13 .* fraction=0.5 leaves 12'):
        train(folders, [hook_cfg(folders, k=13)])


def test_a_model_without_teacher_is_refused(folders, monkeypatch):
    monkeypatch.setattr(Toy, '__init__', _without_teacher)
    with pytest.raises(ValueError, match="network='teacher' needs .* Toy has none"):
        train(folders, [hook_cfg(folders, network='teacher')])


def _without_teacher(self):
    BaseModel.__init__(self, SelfSupDataPreprocessor())
    self.backbone = nn.Conv2d(3, 4, 3)


@pytest.mark.parametrize(
    'argument',
    [dict(interval=0), dict(k=0), dict(fraction=0), dict(fraction=1.5)]
    + [dict(temperature=0), dict(network='both')],
)
def test_wrong_arguments_are_named(argument):
    with pytest.raises(ValueError, match=f'KNNHook: .*{next(iter(argument))}'):
        KNNHook({}, {}, **argument)


def test_the_former_name_of_network_is_explained():
    with pytest.raises(ValueError, match="of is now called network, got of='teacher'"):
        KNNHook({}, {}, of='teacher')
