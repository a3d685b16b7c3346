"""The algorithm: registries, views, teachers, precision, several ranks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from mmengine.logging import MessageHub
from mmengine.registry import MODELS, DefaultScope

from mmbam.models import BAM, EMATeacher, FrozenTeacher, embed_views
from mmbam.utils.errors import InputError
from tests.helpers.distributed import run_ranks
from tests.helpers.tiny import RESNET, VIT, bam_config, make_views

EMA = dict(type='mmbam.EMATeacher')


def build(seed: int = 0, **kwargs) -> BAM:
    torch.manual_seed(seed)
    model = MODELS.build(bam_config(**kwargs))
    model.init_weights()
    return model


def gradients(model, views) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model(views, mode='loss')['loss'].backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize('scope', ['mmengine', 'mmpretrain', 'mmdet', 'mmseg'])
def test_builds_from_the_config_of_any_project(scope):
    with DefaultScope.overwrite_default_scope(scope):
        assert isinstance(build(teacher=EMA), BAM)


@pytest.mark.parametrize('backbone', [VIT, RESNET], ids=['vit', 'resnet'])
@pytest.mark.parametrize('teacher', [None, EMA], ids=['alone', 'ema'])
@pytest.mark.parametrize('num_local', [0, 1, 3])
def test_every_trainable_weight_gets_a_gradient(backbone, teacher, num_local):
    model = build(backbone=backbone, teacher=teacher, num_views=2 + num_local)
    grads = gradients(model, make_views(num_local=num_local))
    assert grads
    for name, grad in grads.items():
        assert grad.isfinite().all() and grad.any(), name
    assert not any(name.startswith('teacher') for name in grads)


def test_the_layout_of_memory_changes_the_maps_and_not_the_gradients():
    maps, of_layout = [], []
    # Below 16 channels torch overwrites memory in this layout.
    wide = dict(RESNET, stem_channels=16, base_channels=16)
    cfg = bam_config(backbone=wide, teacher=EMA)
    cfg['neck']['in_channels'] = 32
    weights = MODELS.build(cfg).state_dict()
    for channels_last in (False, True):
        model = MODELS.build(dict(cfg, channels_last=channels_last)).double()
        model.load_state_dict(weights)
        for network in (model.backbone, model.teacher.backbone):
            network.layer1.register_forward_hook(lambda m, x, y: maps.append(y))
        of_layout.append(gradients(model, make_views(dtype=torch.float64)))
    plain, ours = of_layout
    for name in plain:
        torch.testing.assert_close(ours[name], plain[name], msg=name)
    in_layout = [y.is_contiguous(memory_format=torch.channels_last) for y in maps]
    assert in_layout == [False] * 3 + [True] * 3  # teacher, student's two sizes


def test_views_of_one_size_go_through_the_backbone_together():
    model = build(num_views=5)
    sizes = []
    model.backbone.register_forward_hook(lambda m, x, y: sizes.append(x[0].shape))
    views = make_views(n=4, num_local=3)
    model(views, mode='loss')
    assert [tuple(s) for s in sizes] == [(8, 3, 32, 32), (12, 3, 16, 16)]


def test_latents_keep_the_order_of_the_views():
    model = build().eval()
    a, b, c, d = make_views()
    mixed = embed_views(model.backbone, model.neck, [a, c, b, d]).chunk(4)
    for z, view in zip(mixed, [a, c, b, d]):
        alone = embed_views(model.backbone, model.neck, [view])
        torch.testing.assert_close(z, alone)


def test_a_batch_norm_of_the_projector_sees_views_of_one_size_alone():
    # Over both sizes together, one point for each would have mean 0 and deviation 1.
    model = build(num_views=4, norm_cfg=dict(type='BN1d')).train()
    large, small = make_views(num_global=2, num_local=0), make_views(num_global=0)
    z = embed_views(model.backbone, model.neck, [*large, *(3 * s for s in small)])
    for of_one_size in z.chunk(2):
        assert of_one_size.mean(dim=0).abs().max() < 1e-5


def test_what_is_frozen_is_frozen_before_a_distributed_wrapper_looks():
    model = MODELS.build(bam_config(teacher=EMA))
    before = {n for n, p in model.named_parameters() if p.requires_grad}
    model.init_weights()
    assert before == {n for n, p in model.named_parameters() if p.requires_grad}


def test_a_pipeline_with_another_number_of_views_is_named():
    with pytest.raises(ValueError, match='makes 3 views.*num_views is 4'):
        build()(make_views(num_local=1), mode='loss')


def test_health_signs_are_logged_and_do_not_count_as_loss():
    model = build()
    losses = model(make_views(), mode='loss')
    assert set(losses) == {'loss', 'entropy_a', 'entropy_b'}
    total, logged = model.parse_losses(losses)
    assert total == losses['loss']
    assert logged['entropy_a'] > 0 and logged['entropy_b'] > 0


class TestEMATeacher:
    def test_starts_as_the_student_and_sees_only_the_targets(self):
        model = build(teacher=EMA)
        for own, other in zip(model.teacher.parameters(), student(model)):
            assert torch.equal(own, other)
        seen = []
        model.teacher.register_forward_hook(lambda m, x, y: seen.append(len(x[0])))
        model(make_views(), mode='loss')
        assert seen == [2]

    def test_sees_all_views_if_all_rows_are_balanced(self):
        model = build(teacher=EMA, balance_rows='all')
        seen = []
        model.teacher.register_forward_hook(lambda m, x, y: seen.append(len(x[0])))
        model(make_views(), mode='loss')
        assert seen == [4]

    @pytest.mark.parametrize('progress, momentum', [(0, 0.9), (0.5, 0.95), (1, 1.0)])
    def test_momentum_rises_on_a_cosine(self, progress, momentum):
        model = build(teacher=dict(EMA, momentum=0.9))
        before = [p.clone() for p in model.teacher.parameters()]
        with torch.no_grad():
            for p in student(model):
                p.add_(torch.randn_like(p))
        model.teacher.update(model.backbone, model.neck, progress)
        for old, new, other in zip(before, model.teacher.parameters(), student(model)):
            torch.testing.assert_close(new, momentum * old + (1 - momentum) * other)

    def test_is_updated_with_the_runners_progress_before_its_forward(self):
        model = build(teacher=dict(EMA, momentum=0.0, end_momentum=0.0))
        hub = MessageHub.get_current_instance()
        hub.update_info('iter', 3)
        hub.update_info('max_iters', 10)
        calls = []
        update, forward = model.teacher.update, model.teacher.forward
        model.teacher.update = lambda *a: (calls.append(a[-1]), update(*a))
        model.teacher.forward = lambda x: (calls.append('forward'), forward(x))[1]
        model(make_views(), mode='loss')
        assert calls == [0.3, 'forward']

    def test_wrong_momentum_is_named(self):
        with pytest.raises(ValueError, match='momentum must lie in 0..1'):
            EMATeacher(momentum=1.5)


def student(model):
    return [*model.backbone.parameters(), *model.neck.parameters()]


class TestFrozenTeacher:
    def test_another_architecture_and_width_teaches(self, tmp_path):
        teacher = MODELS.build(VIT)
        teacher.init_weights()
        path = tmp_path / 'teacher.pth'
        torch.save(dict(state_dict=teacher.state_dict()), path)
        cfg = bam_config(
            backbone=RESNET,
            teacher=dict(
                type='mmbam.FrozenTeacher', backbone=VIT, checkpoint=str(path)
            ),
        )
        cfg['neck']['out_channels'] = 32
        model = MODELS.build(cfg)
        model.init_weights()
        model.train()
        assert isinstance(model.teacher, FrozenTeacher)
        assert not model.teacher.training and model.backbone.training
        assert model.target_backbone is model.backbone
        grads = gradients(model, make_views())
        assert not any('teacher' in name for name in grads)
        for key, value in teacher.state_dict().items():
            assert torch.equal(model.teacher.backbone.state_dict()[key], value), key

    def test_a_checkpoint_that_does_not_fit_is_refused(self, tmp_path):
        path = tmp_path / 'other.pth'
        torch.save(dict(state_dict=MODELS.build(RESNET).state_dict()), path)
        with pytest.raises(ValueError, match='missing'):
            FrozenTeacher(backbone=dict(VIT), checkpoint=str(path))

    def test_random_weights_are_refused(self):
        with pytest.raises(ValueError, match='checkpoint must name a file'):
            FrozenTeacher(backbone=dict(VIT))

    def test_latents_of_another_width_are_named(self):
        cfg = bam_config(teacher=FrozenTeacher(backbone=MODELS.build(VIT)))
        with pytest.raises(ValueError, match='width'):
            MODELS.build(cfg)(make_views(), mode='loss')


def test_projector_normalises_after_every_layer_the_last_without_affine():
    model = build(norm_cfg=dict(type='BN1d'))
    norms = [m for m in model.neck.modules() if isinstance(m, torch.nn.BatchNorm1d)]
    assert [norm.affine for norm in norms] == [True, True, False]
    assert not any(
        isinstance(m, torch.nn.BatchNorm1d) for m in build(teacher=EMA).modules()
    )
    with pytest.raises(ValueError, match='in_channels=32.*width 7'):
        model.neck(torch.randn(2, 7))


def timm_backbone(name, **kwargs):
    return dict(type='mmpretrain.TIMMBackbone', model_name=name, **kwargs)


@pytest.mark.parametrize(
    'backbone, width',
    [
        (timm_backbone('resnet18', zero_init_last=False), 512),
        (
            timm_backbone(
                'vit_tiny_patch16_224', depth=2, img_size=32, dynamic_img_size=True
            ),
            192,
        ),
    ],
    ids=['cnn', 'vit'],
)
def test_timm_backbones_train(backbone, width):
    cfg = bam_config()
    cfg['backbone'] = backbone
    cfg['neck']['in_channels'] = width
    grads = gradients(MODELS.build(cfg), make_views())
    assert any(name.startswith('backbone.timm_model') for name in grads)
    for name, grad in grads.items():
        assert grad.isfinite().all() and grad.any(), name


@pytest.mark.parametrize('backbone', [VIT, RESNET], ids=['vit', 'resnet'])
def test_gradient_checkpointing_gives_the_same_gradients(backbone):
    expected = gradients(build(backbone=backbone, teacher=EMA), make_views())
    torch.manual_seed(0)
    cfg = bam_config(backbone=backbone, teacher=EMA)
    model = MODELS.build(dict(cfg, grad_checkpointing=True))
    model.init_weights()
    calls = []
    if backbone is VIT:
        block = model.backbone.layers[0].attn
    else:
        block = model.backbone.layer1[0].conv1
    block.register_forward_hook(lambda *_: calls.append(1))
    for name, grad in gradients(model, make_views()).items():
        torch.testing.assert_close(grad, expected[name])
    assert len(calls) == 4  # two sizes, each once more in the backward pass


def test_gradient_checkpointing_names_a_backbone_it_does_not_know():
    cfg = bam_config()
    cfg['backbone'] = dict(type='mmpretrain.LeNet5')
    with pytest.raises(InputError, match='LeNet5, which grad_checkpointing needs'):
        MODELS.build(dict(cfg, grad_checkpointing=True))


def test_mixed_precision_is_close_to_full():
    expected = build(teacher=EMA)(make_views(), mode='loss')['loss']
    model = build(teacher=EMA)
    seen = []
    model.neck.register_forward_hook(lambda m, x, y: seen.append(y.dtype))
    with torch.autocast('cpu', dtype=torch.bfloat16):
        loss = model(make_views(), mode='loss')['loss']
    loss.backward()
    assert set(seen) == {torch.bfloat16}
    assert loss.item() == pytest.approx(expected.item(), rel=0.02)


def test_half_precision_latents_give_the_loss_of_full_ones():
    # Convolutions of half floats have no CPU kernel: the head alone.
    head = build().head
    z = torch.randn(24, 32, generator=torch.Generator().manual_seed(0))
    expected = head.loss(z, z[:12])['loss']
    assert head.loss(z.half(), z[:12].half())['loss'].item() == pytest.approx(
        expected.item(), rel=1e-3
    )


def test_torch_compile_gives_the_same_step():
    model = build(teacher=EMA)
    expected = model(make_views(), mode='loss')['loss']
    model = build(teacher=EMA)
    compiled = torch.compile(model.forward, backend='aot_eager')
    loss = compiled(make_views(), mode='loss')['loss']
    loss.backward()
    torch.testing.assert_close(loss, expected)


# Several ranks ---------------------------------------------------------------------

CASES = [
    dict(teacher=teacher, **loss)
    for teacher, loss in itertools.product(
        (None, EMA), (dict(), dict(positive_mask=None), dict(top_k=3))
    )
]


def gradients_of_share(splits: list[slice]):
    """Gradients that distributed training of this rank's images gives, as numpy."""
    from mmengine.dist import get_rank
    from mmengine.model import MMDistributedDataParallel

    results = []
    for case in CASES:
        model = build(**case)
        # Away from the start, where the teacher is the student, and where layer norm
        # blows up the rounding of a [cls] token that is next to nothing.
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p), alpha=0.1)
        model = MMDistributedDataParallel(model)
        views = [view[splits[get_rank()]] for view in make_views()]
        loss = model(views, mode='loss')['loss']
        loss.backward()
        grads = {
            n: p.grad.numpy() for n, p in model.named_parameters() if p.requires_grad
        }
        results.append((loss.item(), grads))
    return results


def test_two_ranks_give_the_loss_and_gradient_of_one():
    (whole,) = run_ranks(gradients_of_share, 1, [slice(0, 6)])
    halves = run_ranks(gradients_of_share, 2, [slice(0, 3), slice(3, 6)])
    for case, one, *two in zip(CASES, whole, *halves):
        mean = np.mean([loss for loss, _ in two])
        assert mean == pytest.approx(one[0], rel=1e-5), case
        for name, grad in one[1].items():
            for _, other in two:
                error = np.linalg.norm(other[name] - grad) / np.linalg.norm(grad)
                assert error < 1e-5, (case, name)
