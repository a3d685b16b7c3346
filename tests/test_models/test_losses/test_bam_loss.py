"""The loss against golden values, the slow oracle, and itself on several ranks."""

from __future__ import annotations

import itertools
import math
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from mmbam.models import BAMLoss
from tests.helpers.distributed import run_ranks
from tests.test_models.test_losses.oracle import bam_loss_oracle, sinkhorn
from tests.test_models.test_losses.oracle import mask as mask_of_oracle

N, DIM = 12, 16


def waves(num_views: int, phase: float) -> torch.Tensor:
    r = torch.arange(num_views * N, dtype=torch.float64)[:, None]
    c = torch.arange(DIM, dtype=torch.float64)[None]
    return torch.sin(phase + 0.7 * r + 1.3 * c + 0.11 * r * c)


def latents(num_views, n=6, dim=8, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(num_views * n, dim, generator=generator, dtype=torch.float64)
    return z.to(dtype)


def loss_and_grad(loss, z, z_target=None, **kwargs):
    z = z.clone().requires_grad_()
    value = loss(z, z_target, **kwargs)
    value.backward()
    return value.item(), z.grad


@pytest.mark.parametrize(
    'num_views, teacher, top_k, rows, value, norm',
    [
        (2, False, 0, 'targets', 5.04854976, 0.98968576),
        (2, False, 0, 'all', 5.04854976, 0.98968576),
        (8, False, 0, 'all', 6.46416752, 0.41916953),
        (8, False, 0, 'targets', 6.48220655, None),
        (2, True, 0, 'targets', 7.81787095, 0.65712059),
        (2, True, 0, 'all', 7.81787095, 0.65712059),
        (8, True, 0, 'all', 6.71130570, 0.29491551),
        (8, True, 0, 'targets', 6.61633479, None),
        (8, True, 5, 'all', 6.70424564, 0.30489701),
        (8, True, 5, 'targets', 6.60691481, None),
    ],
)
def test_golden_values(num_views, teacher, top_k, rows, value, norm):
    loss = BAMLoss(num_views, balance_rows=rows, top_k=top_k)
    z_target = waves(loss.num_teacher_views, 2.0) if teacher else None
    got, grad = loss_and_grad(loss, waves(num_views, 1.0), z_target)
    assert got == pytest.approx(value, abs=1e-6)
    if norm is not None:
        assert grad.norm().item() == pytest.approx(norm, abs=1e-6)


SWITCHES = [
    dict(zip(('positive_mask', 'balance_rows', 'top_k', 'global_norm', 'balanced'), v))
    for v in itertools.product(
        ('exclude', 'zero', None), ('targets', 'all'), (0, 3), (True, False), (True, 0)
    )
]


@pytest.mark.parametrize('views', [(2, 2), (5, 2), (4, 1), (3, 3), (5, 3)])
@pytest.mark.parametrize('teacher', [False, True])
def test_every_switch_equals_the_oracle(views, teacher):
    num_views, num_targets = views
    for switches in SWITCHES:
        arguments = dict(
            num_views=num_views, num_target_views=num_targets, tau_b=0.06, **switches
        )
        loss = BAMLoss(**arguments)
        z = latents(num_views)
        z_target = latents(loss.num_teacher_views, seed=1) if teacher else None
        value, grad = loss_and_grad(loss, z, z_target)
        expected, expected_grad = loss_and_grad(
            bam_loss_oracle, z, z_target, **arguments
        )
        assert value == pytest.approx(expected, rel=1e-9), switches
        torch.testing.assert_close(
            grad, expected_grad, msg=lambda m, s=switches: f'{s}: {m}'
        )


@pytest.mark.parametrize('teacher', [False, True])
def test_second_derivatives_are_refused(teacher):
    z = latents(3).requires_grad_()
    loss = BAMLoss(num_views=3)(z, latents(2, seed=1) if teacher else None)
    with pytest.raises(RuntimeError, match='no second derivatives'):
        torch.autograd.grad(loss, z, create_graph=True)


class LiveMemory(TorchDispatchMode):
    """Counts the elements of all tensors that exist at once, at their peak."""

    def __init__(self):
        super().__init__()
        self.tensors, self.peak = [], 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_flatten(out)[0]:
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                place, size = storage.data_ptr(), storage.nbytes() // 8
                self.tensors.append((weakref.ref(tensor), place, size))
        self.tensors = [t for t in self.tensors if t[0]() is not None]
        live = {place: size for _, place, size in self.tensors}
        self.peak = max(self.peak, sum(live.values()))
        return out


@pytest.mark.parametrize('teacher', [False, True])
@pytest.mark.parametrize('rows', ['targets', 'all'])
def test_more_views_need_no_more_matrices_at_once(rows, teacher):
    peaks = {}
    for num_views in (3, 12):
        loss = BAMLoss(num_views, balance_rows=rows)
        # Latents are tiny next to similarities: 64 x 2 against 64 x 128 for a view.
        z = latents(num_views, n=64, dim=2)
        views = loss.num_teacher_views
        z_target = latents(views, n=64, dim=2, seed=1) if teacher else None
        with LiveMemory() as memory:
            loss_and_grad(loss, z, z_target)
        peaks[num_views] = memory.peak
    one_view = 64 * 2 * 64
    assert peaks[3] > 4 * one_view  # B and more have been counted
    assert peaks[12] - peaks[3] < 1.5 * one_view


def test_the_gradient_of_the_columns_is_kept_once_for_all_views():
    V, T, n, dim = 12, 2, 4, 64
    saved = []

    def keep(x):
        saved.append(weakref.ref(x))
        return x

    z = latents(V, n=n, dim=dim).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        loss = BAMLoss(V, num_target_views=T)(z)
    kept = {x.data_ptr(): x.numel() for ref in saved if (x := ref()) is not None}
    loss.backward()
    # The gradient of z and of the columns, and what normalising the columns needs.
    assert sum(kept.values()) < (V + 4 * T) * n * dim


@pytest.mark.parametrize('mask', ['exclude', None])
def test_entropy_of_b_is_that_of_the_targets(mask):
    z_target = latents(2, seed=1)
    loss = BAMLoss(4, positive_mask=mask)
    loss(latents(4), z_target)
    targets = F.normalize(z_target, dim=-1)
    s = mask_of_oracle(targets @ targets.T, 6, mask)
    b = sinkhorn((s / 0.05).exp(), 3)
    expected = torch.special.entr(b).sum(dim=1).mean()
    torch.testing.assert_close(loss.stats['entropy_b'], expected)


@pytest.mark.parametrize('rows', ['targets', 'all'])
def test_a_latent_of_length_zero_is_like_nothing(rows):
    z, z_target = latents(3), latents(3 if rows == 'all' else 2, seed=1)
    z[0] = z[-1] = z_target[1] = z_target[-1] = 0
    arguments = dict(num_views=3, balance_rows=rows)
    value, grad = loss_and_grad(BAMLoss(**arguments), z, z_target)
    expected, expected_grad = loss_and_grad(bam_loss_oracle, z, z_target, **arguments)
    assert value == pytest.approx(expected, rel=1e-9)
    torch.testing.assert_close(grad[1:-1], expected_grad[1:-1])


@pytest.mark.parametrize('rows', ['targets', 'all'])
def test_latents_as_long_as_floats_can_be_spoil_nothing(rows):
    z, z_target = latents(3).float(), latents(3, seed=1).float().abs()
    z[0] = z_target[1] = z_target[-1] = 3e38  # twice that is infinite
    z_target = z_target if rows == 'all' else z_target[: 2 * len(z) // 3]
    value, grad = loss_and_grad(BAMLoss(3, balance_rows=rows), z, z_target)
    assert math.isfinite(value)
    assert grad.isfinite().all()


@pytest.mark.parametrize('tau', [0.1, 0.01])
@pytest.mark.parametrize('mask', ['exclude', 'zero', None])
@pytest.mark.parametrize('teacher', [False, True])
def test_single_precision_loses_little_to_a_double_precision_oracle(tau, mask, teacher):
    n, num_views = 256, 4  # images in groups of eight
    centres = latents(1, n=n // 8, dim=64, seed=2).repeat_interleave(8, dim=0)
    z = latents(num_views, n=n, dim=64) + centres.repeat(num_views, 1)
    z_target = latents(num_views, n=n, dim=64, seed=1) + centres.repeat(num_views, 1)
    z_target = z_target if teacher else None
    arguments = dict(
        num_views=num_views, tau=tau, positive_mask=mask, balance_rows='all'
    )
    expected, expected_grad = loss_and_grad(bam_loss_oracle, z, z_target, **arguments)
    value, grad = loss_and_grad(
        BAMLoss(**arguments), z.float(), z_target.float() if teacher else None
    )
    assert value == pytest.approx(expected, rel=1e-6)
    assert (grad - expected_grad).norm() < 1e-5 * expected_grad.norm()


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize('tau_b', [0.05, 0.03, 0.02, 0.005])
@pytest.mark.parametrize('teacher', [False, True])
def test_half_floats_cost_no_more_than_their_rounding(dtype, tau_b, teacher):
    z = latents(4, n=16, dtype=dtype)
    z_target = latents(2, n=16, seed=1, dtype=dtype) if teacher else None
    loss = BAMLoss(4, tau_b=tau_b)
    value, grad = loss_and_grad(loss, z, z_target)
    # The oracle gets the same rounded latents, so only the arithmetic can differ.
    expected, expected_grad = loss_and_grad(
        bam_loss_oracle,
        z.double(),
        None if z_target is None else z_target.double(),
        num_views=4,
        tau_b=tau_b,
        balance_rows='targets',
    )
    assert grad.dtype == dtype
    assert value == pytest.approx(expected, rel=1e-5)
    # The gradient is rounded to the type of the latents, once.
    error = (grad.double() - expected_grad).norm() / expected_grad.norm()
    assert error < max(2e-4, torch.finfo(dtype).eps)


def test_far_apart_latents_stay_finite_at_the_lowest_temperature():
    z = torch.eye(8)[torch.arange(16) % 8].repeat(2, 1)
    z[8:16] *= -1  # cosines of -1, 0 and 1 only
    value, grad = loss_and_grad(BAMLoss(2, tau_b=0.005), z)
    assert np.isfinite(value) and grad.isfinite().all()


def test_many_iterations_over_all_rows_stay_finite():
    z = latents(8, dtype=torch.float32)
    arguments = dict(num_views=8, balance_rows='all', sinkhorn_iters=100)
    value, grad = loss_and_grad(BAMLoss(**arguments), z)
    expected = bam_loss_oracle(z.double(), **arguments).item()
    assert value == pytest.approx(expected, rel=1e-5) and grad.isfinite().all()


def test_autocast_does_not_reach_the_arithmetic():
    z = latents(2, dtype=torch.float32)
    loss = BAMLoss(2)
    expected, _ = loss_and_grad(loss, z)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        value, _ = loss_and_grad(loss, z)
    assert value == expected


def test_entropies_are_those_of_a_and_b():
    loss = BAMLoss(2)
    loss(torch.randn(2 * 64, 256, dtype=torch.float64) * 1e-3 + 1.0)
    uniform = np.log(2 * 63)  # nearly equal latents attend to all others alike
    assert loss.stats['entropy_a'].item() == pytest.approx(uniform, rel=1e-3)
    assert loss.stats['entropy_b'].item() == pytest.approx(uniform, rel=1e-3)
    loss(torch.randn(2 * 64, 8, dtype=torch.float64))
    assert loss.stats['entropy_b'] < loss.stats['entropy_a'] < uniform


@pytest.mark.parametrize('num_targets', [1, 2])
@pytest.mark.parametrize('mask', ['exclude', 'zero', None])
@pytest.mark.parametrize('global_norm', [True, False])
def test_entropy_of_a_is_that_of_the_whole_matrix(mask, global_norm, num_targets):
    z, z_target = latents(3), latents(num_targets, seed=1)
    loss = BAMLoss(3, num_targets, positive_mask=mask, global_norm=global_norm)
    loss(z, z_target)
    s = torch.nn.functional.normalize(z) @ torch.nn.functional.normalize(z_target).T
    s = mask_of_oracle(s, 6, mask).view(3, 6, 1 if global_norm else num_targets, -1)
    if num_targets == 1:
        s = s[1:]  # a lone target view is matched with nothing
    entropy = torch.special.entr((s / loss.tau).softmax(dim=-1)).sum(dim=-1).mean()
    assert loss.stats['entropy_a'].item() == pytest.approx(entropy.item(), rel=1e-9)


def test_backward_scales_the_gradient_and_can_be_called_again():
    z = latents(4)
    _, expected = loss_and_grad(BAMLoss(4), z)
    z.requires_grad_()
    loss = 3 * BAMLoss(4)(z)
    for _ in range(2):
        (grad,) = torch.autograd.grad(loss, z, retain_graph=True)
        torch.testing.assert_close(grad, 3 * expected)


def test_evaluation_without_gradient_gives_the_same_value():
    z = latents(2)
    with torch.no_grad():
        value = BAMLoss(2)(z)
    assert value.item() == pytest.approx(loss_and_grad(BAMLoss(2), z)[0])


@pytest.mark.parametrize(
    'arguments, message',
    [
        (dict(num_views=1), 'num_views'),
        (dict(num_views=2, num_target_views=3), 'num_target_views'),
        (dict(num_views=2, tau=0), 'tau must be positive'),
        (dict(num_views=2, tau_b=0), 'tau_b must be positive'),
        (dict(num_views=2, tau_b=float('nan')), 'tau_b must be positive'),
        (dict(num_views=2, sinkhorn_iters=0), 'sinkhorn_iters'),
        (dict(num_views=2, positive_mask='drop'), 'positive_mask'),
        (dict(num_views=2, balance_rows='none'), 'balance_rows'),
        (dict(num_views=2, top_k=-1), 'top_k'),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        BAMLoss(**arguments)


def test_wrong_shapes_are_named():
    loss = BAMLoss(4)
    with pytest.raises(ValueError, match='num_views = 4'):
        loss(torch.randn(6, 8))
    with pytest.raises(ValueError, match='z_target must hold 2 views'):
        loss(torch.randn(8, 8), torch.randn(8, 8))
    with pytest.raises(ValueError, match='width'):
        loss(torch.randn(8, 8), torch.randn(4, 16))


@pytest.mark.parametrize('mask', ['exclude', 'zero'])
def test_one_image_with_a_mask_is_refused(mask):
    with pytest.raises(ValueError, match='at least 2 images'):
        BAMLoss(2, positive_mask=mask)(torch.randn(2, 8))
    assert BAMLoss(2, positive_mask=None)(torch.randn(2, 8)).isfinite()


# Several ranks ---------------------------------------------------------------------

RANK_CASES = [
    dict(),
    dict(positive_mask='zero'),
    dict(positive_mask=None),
    dict(balance_rows='all'),
    dict(top_k=3),
    dict(global_norm=False),
    dict(balanced=False),
    dict(tau_b=0.01),
]


def share(z, num_views, images):
    return z.view(num_views, -1, z.shape[-1])[:, images].flatten(0, 1)


def loss_of_share(splits: list[list[int]]):
    """Loss and gradient of this rank's images for every case, as numpy."""
    from mmengine.dist import get_rank

    images = splits[get_rank()]
    results = []
    for case, teacher in itertools.product(RANK_CASES, (False, True)):
        loss = BAMLoss(4, **case)
        z = share(latents(4), 4, images)
        views = loss.num_teacher_views
        z_target = share(latents(views, seed=1), views, images) if teacher else None
        value, grad = loss_and_grad(loss, z, z_target)
        results.append((value, grad.view(4, len(images), -1).numpy()))
    return results


@pytest.mark.parametrize('splits', [[[0, 1, 2], [3, 4, 5]], [[0, 1, 2, 3, 4], [5]]])
def test_ranks_together_equal_one_even_with_unequal_shares(splits):
    (whole,) = run_ranks(loss_of_share, 1, [[0, 1, 2, 3, 4, 5]])
    parts = run_ranks(loss_of_share, 2, splits)
    for one, *two in zip(whole, *parts):
        # Distributed training averages losses and gradients over the ranks.
        assert np.mean([value for value, _ in two]) == pytest.approx(one[0], rel=1e-9)
        grad = np.concatenate([grad for _, grad in two], axis=1) / 2
        np.testing.assert_allclose(grad, one[1], rtol=1e-7, atol=1e-10)


def test_a_teacher_of_another_precision_is_taken():
    z, teacher = latents(4), latents(2, seed=1)
    loss = BAMLoss(4)(z, teacher.float())
    assert loss.dtype == torch.float64
    torch.testing.assert_close(loss, BAMLoss(4)(z, teacher), rtol=1e-5, atol=0)
