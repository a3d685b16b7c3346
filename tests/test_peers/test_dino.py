"""DINO: its loss against the formula, its centre, its schedule, several ranks."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from mmengine.logging import MessageHub
from mmengine.registry import MODELS

from mmbam.peers import DINO, DINOLoss, DINONeck
from tests.helpers.distributed import run_ranks
from tests.helpers.tiny import RESNET, VIT, WIDTH, make_views

K = 20


@pytest.fixture
def hub():
    return MessageHub.get_current_instance()


def build(backbone=VIT, num_views=4, **kwargs) -> DINO:
    torch.manual_seed(0)
    model = MODELS.build(
        dict(
            type='mmbam.DINO',
            data_preprocessor=dict(type='mmpretrain.SelfSupDataPreprocessor'),
            backbone=copy.deepcopy(backbone),
            neck=dict(
                type='mmbam.DINONeck',
                in_channels=WIDTH[backbone['type']],
                hid_channels=24,
                bottleneck_channels=12,
                out_channels=K,
            ),
            head=dict(
                type='mmbam.BAMHead',
                loss=dict(type='mmbam.DINOLoss', out_channels=K, num_views=num_views),
            ),
            **kwargs,
        )
    )
    model.init_weights()
    return model


def direct_loss(z, z_target, centre, views, targets, tau_s, tau_t):
    """The double sum of the paper, one term after the other."""
    n, total = len(z) // views, 0.0
    for image in range(n):
        for t in range(targets):
            p = torch.softmax((z_target[t * n + image] - centre) / tau_t, dim=0)
            for s in range(views):
                if s != t:
                    log_p = torch.log_softmax(z[s * n + image] / tau_s, dim=0)
                    total = total - (p * log_p).sum()
    return total / (n * targets * (views - 1))


@pytest.mark.parametrize('views, targets', [(2, 2), (5, 2), (4, 1), (3, 3)])
def test_loss_and_gradient_are_those_of_the_double_sum(views, targets):
    torch.manual_seed(1)
    z = torch.randn(views * 3, K, requires_grad=True)
    z_target = torch.randn(targets * 3, K)
    loss = DINOLoss(K, views, targets, student_temp=0.2, teacher_temp=0.3)
    loss.epoch = loss.warmup_epochs
    loss.center.normal_()
    expected = direct_loss(z, z_target, loss.center.clone(), views, targets, 0.2, 0.3)
    (expected_grad,) = torch.autograd.grad(expected, z)
    value = loss(z, z_target)
    (grad,) = torch.autograd.grad(value, z)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grad, expected_grad)


def test_the_centre_moves_after_it_was_used_and_only_in_training():
    torch.manual_seed(2)
    z, z_target = torch.randn(6, K), torch.randn(6, K)
    loss = DINOLoss(K, 2, center_momentum=0.9)
    first = loss(z, z_target)
    torch.testing.assert_close(loss.center, 0.1 * z_target.mean(0))
    second = loss(z, z_target)
    assert second != first
    torch.testing.assert_close(loss.center, 0.19 * z_target.mean(0))
    loss.eval()
    third = loss(z, z_target)
    torch.testing.assert_close(loss.center, 0.19 * z_target.mean(0))
    assert third == loss(z, z_target)


def test_the_centre_is_part_of_the_checkpoint():
    assert 'head.loss_module.center' in build().state_dict()


def test_the_teachers_temperature_rises_over_thirty_epochs():
    loss = DINOLoss(K, 2)
    seen = {}
    for loss.epoch in (0, 15, 30, 200):
        seen[loss.epoch] = loss.current_teacher_temp()
    expected = {0: 0.04, 15: 0.055, 30: 0.07, 200: 0.07}
    assert seen == pytest.approx(expected)


def test_entropy_tells_both_kinds_of_collapse():
    loss = DINOLoss(K, 2).eval()
    z = torch.zeros(4, K)
    loss(z, z)
    assert loss.stats['entropy_teacher'].item() == pytest.approx(math.log(K))
    loss(z, 100 * torch.nn.functional.one_hot(torch.arange(4), K))
    assert loss.stats['entropy_teacher'].item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    'wrong, named',
    [
        (dict(num_views=1), 'num_views=1'),
        (dict(num_views=2, num_target_views=3), 'num_target_views=3'),
        (dict(num_views=2, teacher_temp=0), 'teacher_temp=0'),
        (dict(num_views=2, center_momentum=2), 'center_momentum'),
    ],
)
def test_wrong_arguments_are_named(wrong, named):
    with pytest.raises(ValueError, match=named):
        DINOLoss(K, **wrong)


def test_scores_are_cosine_similarities():
    neck = DINONeck(8, 16, 6, K)
    x = torch.randn(5, 8)
    expected = torch.cosine_similarity(
        neck.mlp(x)[:, None], neck.prototypes.weight[None], dim=-1
    )
    torch.testing.assert_close(neck(x), expected)


@pytest.mark.parametrize('backbone', [VIT, RESNET], ids=['vit', 'resnet'])
@pytest.mark.parametrize('num_local', [0, 2])
def test_every_trainable_weight_gets_a_gradient(backbone, num_local):
    model = build(backbone, num_views=2 + num_local)
    seen = []
    model.teacher.backbone.register_forward_hook(lambda m, x, y: seen.append(len(x[0])))
    model(make_views(num_local=num_local), mode='loss')['loss'].backward()
    assert seen == [12]  # the two global views of six images
    for name, p in model.named_parameters():
        if p.requires_grad:
            assert p.grad.isfinite().all() and p.grad.any(), name
        else:
            assert p.grad is None


def test_prototypes_stay_where_they_are_in_the_first_epoch(hub):
    model = build()
    for epoch, moves in ((0, False), (1, True)):
        hub.update_info('epoch', epoch)
        model.zero_grad()
        model(make_views(), mode='loss')['loss'].backward()
        assert model.neck.prototypes.weight.grad.any().item() is moves
        assert model.neck.mlp[0].weight.grad.any()


def test_the_teacher_has_dinos_momentum():
    assert build().teacher.momentum == 0.996


def gradients_of_share(splits):
    from mmengine.dist import get_rank
    from mmengine.model import MMDistributedDataParallel

    model = build()
    with torch.no_grad():  # away from the start, where the teacher is the student
        for p in model.parameters():
            p.add_(torch.randn_like(p), alpha=0.1)
    model = MMDistributedDataParallel(model)
    views = [view[splits[get_rank()]] for view in make_views()]
    losses = []
    for _ in range(2):  # the second with a centre that has moved
        model.zero_grad()
        loss = model(views, mode='loss')['loss']
        loss.backward()
        losses.append(loss.item())
    grads = {n: p.grad.numpy() for n, p in model.named_parameters() if p.requires_grad}
    return losses, grads, model.module.head.loss_module.center.numpy()


def test_two_ranks_give_the_loss_gradient_and_centre_of_one():
    ((losses, grads, centre),) = run_ranks(gradients_of_share, 1, [slice(0, 6)])
    halves = run_ranks(gradients_of_share, 2, [slice(0, 3), slice(3, 6)])
    means = np.mean([half[0] for half in halves], axis=0)
    assert means == pytest.approx(losses, rel=1e-5)
    for _, other_grads, other_centre in halves:
        assert other_centre == pytest.approx(centre, rel=1e-4, abs=1e-7)
        for name, grad in grads.items():
            error = np.linalg.norm(other_grads[name] - grad) / np.linalg.norm(grad)
            assert error < 1e-5, name
