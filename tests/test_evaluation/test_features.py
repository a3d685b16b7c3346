"""Features: each sample once, in order, and nothing else disturbed."""

import random

import numpy as np
import pytest
import torch
from mmengine.dataset import DefaultSampler, InfiniteSampler, pseudo_collate
from mmengine.structures import BaseDataElement
from mmpretrain.models import SelfSupDataPreprocessor
from torch import nn
from torch.utils.data import DataLoader, Dataset

from mmbam.evaluation import extract_features


class Numbered(Dataset):
    """Image i holds the number i everywhere, its label is 2 i."""

    def __init__(self, size, packed=False):
        self.size, self.packed = size, packed

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        image = torch.full((3, 4, 4), i, dtype=torch.uint8)
        if not self.packed:
            return image, 2 * i
        return dict(
            inputs=image, data_samples=BaseDataElement(gt_label=torch.tensor([2 * i]))
        )


def loader(size, batch_size=3, shuffle=False, sampler=None, packed=False, **kwargs):
    data = Numbered(size, packed)
    if packed:
        kwargs.setdefault('collate_fn', pseudo_collate)
    sampler = sampler or DefaultSampler(data, shuffle=shuffle, seed=0)
    return DataLoader(data, batch_size=batch_size, sampler=sampler, **kwargs)


class Mean(nn.Module):
    """A backbone whose features are the mean of each channel."""

    def forward(self, x):
        return (x,)


def extract(*args, **kwargs):
    kwargs.setdefault('progress', False)
    return extract_features(*args, **kwargs)


@pytest.mark.parametrize('shuffle', [False, True])
def test_rows_are_in_the_order_of_the_data_set(shuffle):
    features, labels = extract(Mean(), loader(11, shuffle=shuffle))
    assert features.dtype == torch.float32 and labels.dtype == torch.int64
    assert features.tolist() == [[i, i, i] for i in range(11)]
    assert labels.tolist() == [2 * i for i in range(11)]


def test_openmmlab_batches_go_through_the_preprocessor():
    preprocessor = SelfSupDataPreprocessor(mean=[1, 2, 3], std=[2, 2, 2], to_rgb=True)
    features, labels = extract(
        Mean(), loader(5, packed=True), data_preprocessor=preprocessor
    )
    assert features.tolist() == [[(i - c) / 2 for c in (1, 2, 3)] for i in range(5)]
    assert labels.tolist() == [0, 2, 4, 6, 8]


def test_the_backbone_of_a_model_is_used():
    model = nn.Module()
    model.backbone = Mean()
    model.data_preprocessor = SelfSupDataPreprocessor(mean=[0] * 3, std=[10] * 3)
    features, _ = extract(model, loader(3, packed=True))
    assert torch.allclose(features[2], torch.tensor([0.2] * 3))


def test_raw_pixels_are_features():
    features, _ = extract(nn.Flatten(), loader(3))
    assert features.shape == (3, 48)


def test_modes_gradients_and_random_numbers_are_left_alone():
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.5), nn.BatchNorm2d(3))
    net[2].eval()
    statistics = net[0].running_mean.clone()
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    expected = torch.rand(1), np.random.rand(), random.random()
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    features, _ = extract(net, loader(4, num_workers=1))
    assert not features.requires_grad
    assert [m.training for m in net.modules()] == [True, True, True, False]
    assert torch.equal(net[0].running_mean, statistics)
    assert (torch.rand(1), np.random.rand(), random.random()) == expected


def test_the_modes_come_back_after_an_error():
    net = nn.Sequential(nn.Conv2d(4, 1, 1))
    with pytest.raises(RuntimeError):
        extract(net, loader(4))
    assert net.training and torch.is_grad_enabled()


def test_progress_tells_the_time_left(capsys):
    extract(Mean(), loader(4), progress=True)
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith('Features, 100 %') and said[-1].endswith('0 s left')


def test_samplers_that_give_no_order_are_refused():
    random_order = DataLoader(Numbered(64), batch_size=2, shuffle=True)
    with pytest.raises(ValueError, match='RandomSampler'):
        extract(Mean(), random_order)
    with pytest.raises(ValueError, match='InfiniteSampler'):
        extract(Mean(), loader(4, sampler=InfiniteSampler(Numbered(4))))


def test_left_out_samples_are_refused():
    with pytest.raises(ValueError, match='reach 3 of 4 samples'):
        extract(Mean(), loader(4, drop_last=True))


def test_an_empty_data_set_is_refused():
    with pytest.raises(ValueError, match='empty'):
        extract(Mean(), loader(0, sampler=[]))


def test_a_sample_without_label_is_named():
    data = [
        dict(
            inputs=torch.zeros(3, 2, 2),
            data_samples=BaseDataElement(metainfo=dict(img_path='cat.png')),
        )
    ]
    unlabeled = DataLoader(data, collate_fn=pseudo_collate)
    with pytest.raises(ValueError, match='cat.png has none'):
        extract(Mean(), unlabeled)


def test_images_of_two_sizes_are_refused():
    data = [
        dict(inputs=torch.zeros(3, s, 2), data_samples=BaseDataElement())
        for s in (2, 3)
    ]
    with pytest.raises(ValueError, match='one size'):
        extract(Mean(), DataLoader(data, batch_size=2, collate_fn=pseudo_collate))
