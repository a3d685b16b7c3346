"""LinearProbe: a backbone that never changes, and what its classifier sees."""

import pytest
import torch
from mmengine.model import MMDistributedDataParallel
from mmengine.registry import MODELS
from mmpretrain.structures import DataSample

from mmbam.models import ClsAndPatchesNeck
from tests.helpers.distributed import run_ranks


def build():
    """On a network of timm with batch norm and dropout, and no frozen_stages."""
    torch.manual_seed(0)
    backbone = dict(type='TIMMBackbone', model_name='resnet10t', drop_path_rate=0.5)
    return MODELS.build(
        dict(
            type='mmbam.LinearProbe',
            _scope_='mmpretrain',
            backbone=backbone,
            neck=dict(type='GlobalAveragePooling'),
            head=dict(type='LinearClsHead', num_classes=2, in_channels=512),
        )
    )


def loss(model, rank=0):
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(rank))
    samples = [DataSample().set_gt_label(i % 2) for i in range(4)]
    return model(images, samples, mode='loss')['loss']


def test_training_touches_the_head_alone():
    model = build().train()
    before = {k: v.clone() for k, v in model.backbone.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.1)
    losses = []
    for _ in range(2):
        losses.append(loss(model))
        losses[-1].backward()
        optimizer.step()
    assert losses[1] < losses[0]
    for name, value in model.backbone.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_features_are_those_of_test_time_in_training_too():
    model = build()
    images = torch.randn(4, 3, 32, 32)
    training = model.train().extract_feat(images)[-1]
    assert torch.equal(training, model.eval().extract_feat(images)[-1])


def _head_gradient():
    rank = torch.distributed.get_rank()
    model = MMDistributedDataParallel(build()).train()
    for _ in range(2):  # a weight without a gradient would be noticed by the second
        model.zero_grad()
        loss(model, rank).backward()
    return model.module.head.fc.weight.grad.numpy()


def test_two_ranks_give_the_gradient_of_one():
    model = build().train()
    ((loss(model, 0) + loss(model, 1)) / 2).backward()
    for gradient in run_ranks(_head_gradient, 2):
        torch.testing.assert_close(
            torch.from_numpy(gradient), model.head.fc.weight.grad
        )


def test_tokens_are_joined():
    tokens = torch.arange(12.0).view(1, 3, 4)
    (joined,) = ClsAndPatchesNeck()((torch.zeros(1), tokens))
    assert joined.tolist() == [[0, 1, 2, 3, 6, 7, 8, 9]]


def test_a_backbone_that_returns_no_tokens_is_named():
    with pytest.raises(ValueError, match=r"out_type='raw'.*\(2, 8\)"):
        ClsAndPatchesNeck()((torch.zeros(2, 8),))
