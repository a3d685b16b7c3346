"""A batch in micro-batches gives the step of the whole batch."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import OptimWrapper
from mmengine.registry import MODELS
from torch import Tensor, nn

from mmbam.models import BAM
from mmbam.models.micro_batches import WaitingViews
from mmbam.utils.errors import InputError
from tests.helpers.distributed import run_ranks
from tests.helpers.tiny import RESNET, VIT, bam_config, make_views

EMA = dict(type='mmbam.EMATeacher')
FROZEN = dict(
    type='mmbam.FrozenTeacher',
    backbone=RESNET,
    neck=dict(type='mmbam.BAMNeck', in_channels=16, hid_channels=8, out_channels=24),
)
N = 7  # not a multiple of the micro-batches


def build(micro_batch_size=None, norm=None, options=None, **kwargs) -> BAM:
    torch.manual_seed(0)
    if kwargs.get('teacher') is FROZEN:  # a network: there is no file with its weights
        kwargs['teacher'] = MODELS.build(dict(FROZEN, backbone=MODELS.build(RESNET)))
    cfg = bam_config(**kwargs)
    cfg.update(micro_batch_size=micro_batch_size, micro_batch_norm=norm)
    model = MODELS.build({**cfg, **(options or {})})
    model.init_weights()
    # Away from the start, where the teacher is the student.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def gradients(model: nn.Module, views=None, scale: float = 1.0) -> dict[str, Tensor]:
    model.zero_grad()
    views = make_views(n=N) if views is None else views
    (scale * model(views, mode='loss')['loss']).backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}


def difference(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """Norm of the difference of two gradients, relative to the second."""
    assert a.keys() == b.keys()
    flat = [torch.cat([grads[name].flatten() for name in b]) for grads in (a, b)]
    return ((flat[0] - flat[1]).norm() / flat[1].norm()).item()


def rows_seen(module: nn.Module) -> list[int]:
    seen: list[int] = []
    module.register_forward_hook(lambda m, x, y: seen.append(len(x[0])))
    return seen


@pytest.mark.parametrize(
    'teacher', [None, EMA, FROZEN], ids=['alone', 'moving average', 'frozen']
)
def test_the_gradient_is_that_of_the_whole_batch(teacher):
    views = [view.double() for view in make_views(n=N)]

    def exact(size, scale=1.0):
        return gradients(build(size, teacher=teacher).double(), views, scale)

    expected = exact(None)
    for size in (1, 3, N, 20):
        assert difference(exact(size), expected) < 1e-12
    # As a gradient scaler does.
    scaled = exact(3, scale=2.0**16)
    assert difference({k: g / 2**16 for k, g in scaled.items()}, expected) < 1e-12


def test_in_float32_it_is_that_of_the_whole_batch_but_for_rounding():
    expected = gradients(build(teacher=EMA))
    assert difference(gradients(build(3, teacher=EMA)), expected) < 1e-5


def test_networks_see_the_images_of_a_micro_batch_with_all_views_of_a_size():
    model = build(3, teacher=EMA)
    student, teacher = rows_seen(model.backbone), rows_seen(model.teacher.backbone)
    loss = model(make_views(n=N), mode='loss')['loss']
    assert student == 2 * [6, 6, 2] and teacher == [6, 6, 2]
    loss.backward()
    # Once more, for the gradient; the last part is still there.
    assert sorted(student) == sorted(3 * [6, 6, 2] + [6, 6])


def test_gradient_checkpointing_and_compilation_change_nothing():
    expected = gradients(build(teacher=EMA))
    blocks = build(3, teacher=EMA, options=dict(grad_checkpointing=True))
    assert difference(gradients(blocks), expected) < 1e-5
    model = build(3, teacher=EMA)
    model.forward = torch.compile(model.forward, backend='aot_eager')
    assert difference(gradients(model), expected) < 1e-5


def test_the_second_pass_draws_the_same_random_numbers():
    noisy = dict(VIT, drop_rate=0.2, drop_path_rate=0.5)
    model = build(3, backbone=noisy, teacher=EMA)
    outputs: list[Tensor] = []
    model.backbone.layers[0].register_forward_hook(
        lambda m, x, y: outputs.append(y.detach())
    )
    torch.manual_seed(1)
    loss = model(make_views(n=N), mode='loss')['loss']
    first, outputs[:] = list(outputs), []
    state = torch.get_rng_state()
    loss.backward()
    assert torch.equal(torch.get_rng_state(), state)
    assert len(first) == 6 and len(outputs) == 5
    for again in outputs:
        same = [one for one in first if one.shape == again.shape]
        assert any(torch.equal(again, one) for one in same)


def test_half_precision_adds_the_gradients_of_micro_batches_in_full():
    views = make_views(n=48)  # enough to show what is added coarsely
    expected = gradients(build(teacher=EMA), views)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        whole = difference(gradients(build(teacher=EMA), views), expected)
        ours = difference(gradients(build(1, teacher=EMA), views), expected)
    assert whole < 0.1  # of bfloat16 itself
    assert ours < 1.1 * whole  # 1.26 if a shared copy adds them in bfloat16


def train(
    model: nn.Module, steps: int = 1, batches: int = 1, images=None, state=None
) -> dict:
    """Train on images as the data loader gives them, with mmengine's step."""
    wrapped = getattr(model, 'module', model)
    trained = [p for p in wrapped.parameters() if p.requires_grad]
    optimizer = OptimWrapper(
        torch.optim.SGD(trained, lr=0.1, momentum=0.9),
        accumulative_counts=batches,
        clip_grad=dict(max_norm=0.3),
    )
    if state is not None:
        optimizer.load_state_dict(state)
    for _ in range(steps * batches):
        data = dict(inputs=uint8_views(images), data_samples=None)
        model.train_step(data, optimizer)
    return optimizer.state_dict()


def uint8_views(images: slice | None = None) -> list[Tensor]:
    views = [(40 * view + 128).clamp(0, 255).byte() for view in make_views(n=N)]
    return [view[images or slice(None)] for view in views]


def with_mean_and_std(micro_batch_size, **kwargs) -> BAM:
    preprocessor = dict(
        type='mmpretrain.SelfSupDataPreprocessor',
        mean=[128.0] * 3,
        std=[40.0] * 3,
        to_rgb=True,
    )
    options = dict(data_preprocessor=preprocessor)
    return build(micro_batch_size, teacher=EMA, options=options, **kwargs)


def test_a_step_on_waiting_images_is_the_step_on_all_of_them():
    whole, ours = with_mean_and_std(None), with_mean_and_std(3)
    normalised: list[int] = []
    preprocess = ours.micro_batches._preprocess
    ours.micro_batches._preprocess = lambda data, training: (
        normalised.append(len(data['inputs'][0])),
        preprocess(data, training),
    )[1]
    for model in (whole, ours):
        train(model, steps=2)
    assert set(normalised) == {3, 1}
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, msg=name)


def test_images_wait_in_training_alone():
    model = with_mean_and_std(3)
    data = dict(inputs=uint8_views(), data_samples=None)
    views = model.data_preprocessor(data, True)['inputs']
    assert isinstance(views, WaitingViews) and len(views) == 4
    assert all(view.dtype == torch.uint8 for view in views.views)
    # As hooks do that localize or evaluate.
    images = model.data_preprocessor(dict(inputs=data['inputs'][0], data_samples=None))
    assert images['inputs'].dtype == torch.float32


def test_a_run_resumed_equals_one_that_never_stopped():
    whole, stopped, resumed = (build(3, teacher=EMA) for _ in range(3))
    train(whole, steps=3)
    state = train(stopped, steps=2)
    # Micro-batches leave nothing in a checkpoint.
    assert stopped.state_dict().keys() == build(teacher=EMA).state_dict().keys()
    resumed.load_state_dict(stopped.state_dict())
    train(resumed, state=state)
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name


@pytest.mark.parametrize('micro_batch_size', [None, 3])
def test_the_moving_average_moves_once_per_step_of_the_optimizer(micro_batch_size):
    model = build(micro_batch_size, teacher=EMA)
    moves = []
    update = model.teacher.update
    model.teacher.update = lambda *args: (moves.append(1), update(*args))
    train(model, steps=4, batches=3)
    assert len(moves) == 4
    # A loop that clears the gradients only after the forward pass.
    optimizer = torch.optim.SGD(model.neck.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(make_views(), mode='loss')['loss']
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert len(moves) == 7


class TestBatchNorm:
    @pytest.mark.parametrize(
        'kwargs, layer',
        [
            (dict(backbone=RESNET), 'backbone.bn1 is a BatchNorm2d'),
            (dict(norm_cfg=dict(type='BN1d')), 'neck.layers.1 is a BatchNorm1d'),
        ],
    )
    def test_is_refused_by_the_name_of_the_layer(self, kwargs, layer):
        with pytest.raises(InputError, match=layer) as error:
            build(3, **kwargs)
        assert "micro_batch_norm='per_micro_batch'" in str(error.value)

    def test_that_stays_in_evaluation_mode_is_allowed(self):
        frozen = dict(RESNET, norm_eval=True)
        views = make_views(n=N, dtype=torch.float64)
        whole, ours = (
            gradients(build(size, backbone=frozen, teacher=EMA).double().train(), views)
            for size in (None, 3)
        )
        assert difference(ours, whole) < 1e-10

    def test_accepted_has_the_statistics_of_each_micro_batch_once(self):
        model = build(3, 'per_micro_batch', backbone=RESNET, teacher=EMA)
        grads = gradients(model)
        assert all(g.isfinite().all() for g in grads.values())
        assert difference(grads, gradients(build(backbone=RESNET, teacher=EMA))) > 1e-3
        # Three micro-batches of two sizes, none of them counted again for its gradient.
        assert model.backbone.bn1.num_batches_tracked == 6
        assert model.teacher.backbone.bn1.num_batches_tracked == 3
        mean = model.backbone.bn1.running_mean.clone()
        loss = model(make_views(n=N), mode='loss')['loss']
        moved = model.backbone.bn1.running_mean.clone()
        loss.backward()
        assert torch.equal(model.backbone.bn1.running_mean, moved)
        assert not torch.equal(moved, mean)


@pytest.mark.parametrize('size', [0, -1, 1.5, 'all'])
def test_a_wrong_size_is_named(size):
    with pytest.raises(InputError, match=f'micro_batch_size must be .*{size}'):
        build(size)
    with pytest.raises(InputError, match="micro_batch_norm must be .*'x'"):
        build(3, 'x')


class Full(torch.cuda.OutOfMemoryError):
    """An error as torch raises it on a full device."""


def limit_memory(model: BAM, rows: int, in_backward: bool) -> None:
    """Let the backbone fail on more than so many rows, forward or backward."""

    def fail(*_):
        raise Full('CUDA out of memory.')

    def limit(module, args, output):
        if len(output) > rows and not in_backward:
            fail()
        if len(output) > rows and output.requires_grad:
            output.register_hook(fail)

    model.backbone.layers[0].register_forward_hook(limit)


class TestAuto:
    @pytest.mark.parametrize('in_backward', [False, True], ids=['forward', 'backward'])
    def test_halves_until_it_fits_and_repeats_the_step(self, in_backward, caplog):
        noisy = dict(VIT, drop_rate=0.2)
        expected, ours = build(2, backbone=noisy), build('auto', backbone=noisy)
        limit_memory(ours, 4, in_backward)
        with caplog.at_level(logging.INFO):
            for model in (expected, ours):
                torch.manual_seed(1)
                train(model, steps=3)
        assert ours.micro_batches.size == 2  # of 7, 4 and 2 images, two views of each
        for name, value in expected.state_dict().items():
            assert torch.equal(ours.state_dict()[name], value), name

    def test_takes_the_whole_batch_if_it_fits_and_then_does_not_recompute(self):
        model = build('auto')
        train(model, steps=2)
        seen = rows_seen(model.backbone)
        train(model)
        assert model.micro_batches.size == N and seen == [2 * N, 2 * N]

    def test_leaves_other_errors_and_a_network_that_is_too_large_alone(self):
        model = build('auto')
        limit_memory(model, 1, in_backward=False)
        with pytest.raises(RuntimeError, match='one image at a time'):
            train(model)
        model = build('auto')
        model.neck.forward = lambda x: torch.zeros(2) @ torch.zeros(3)
        with pytest.raises(RuntimeError, match='inconsistent tensor size|1D tensors'):
            train(model)

    def test_statistics_of_batch_norm_count_a_step_once(self):
        model = build('auto', 'per_micro_batch', backbone=RESNET, teacher=EMA)
        train(model, steps=2)
        assert model.backbone.bn1.num_batches_tracked == 4
        assert model.teacher.backbone.bn1.num_batches_tracked == 2


# Several ranks ---------------------------------------------------------------------


def steps_of_rank(splits: list[slice], sizes: list) -> list[tuple]:
    """Weights after two steps of this rank, reductions of gradients, size chosen."""
    from mmengine.dist import get_rank
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    results = []
    for size in sizes:
        model = with_mean_and_std(size)
        if size == 'auto' and get_rank() == 1:
            limit_memory(model, 4, in_backward=True)
        reductions: list[int] = []

        def reduce(state, bucket, reductions=reductions):
            reductions.append(1)
            return allreduce_hook(state, bucket)

        wrapped = MMDistributedDataParallel(model, gradient_as_bucket_view=True)
        wrapped.register_comm_hook(None, reduce)
        train(wrapped, steps=2, images=splits[get_rank()])
        weights = {name: value.numpy() for name, value in model.state_dict().items()}
        chosen = model.micro_batches and model.micro_batches.size
        results.append((weights, len(reductions), chosen))
    return results


def test_two_ranks_in_micro_batches_train_as_one_on_the_whole_batch():
    ((whole,),) = run_ranks(steps_of_rank, 1, [slice(0, N)], [None])
    ranks = run_ranks(steps_of_rank, 2, [slice(0, 4), slice(4, N)], [2, 'auto'])
    for results in ranks:
        for weights, reductions, chosen in results:
            assert reductions == 2  # the network is one bucket, reduced once per step
            assert chosen == 2
            for name, value in whole[0].items():
                np.testing.assert_allclose(weights[name], value, 1e-4, 1e-5, name)
