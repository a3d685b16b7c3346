"""Where mmbam differs from the release, it does so as docs/recipes.md says."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, OPTIMIZERS

from mmbam.models import BAMLoss

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / 'configs' / 'bam'


@pytest.mark.parametrize(
    'arch, timm_name, most',
    # sqrt(6 / (3 * 16 * 16 + width))
    [('vit-s16', 'vit_small_patch16_224', 0.0722), ('vit-b16', None, 0.0625)],
)
def test_the_frozen_patch_projection_starts_as_in_moco_v3(arch, timm_name, most):
    cfg = Config.fromfile(CONFIGS / f'{arch}_300e.py').model.backbone
    settings = {'vit-s16': (384, 12), 'vit-b16': (768, 12)}[arch]
    cfg.arch = dict(
        embed_dims=settings[0],
        num_layers=1,
        num_heads=settings[1],
        feedforward_channels=8,
    )
    torch.manual_seed(0)
    vit = MODELS.build(dict(cfg, _scope_='mmpretrain'))
    vit.init_weights()
    projection = vit.patch_embed.projection
    assert projection.weight.abs().max() == pytest.approx(most, rel=2e-3)
    assert (projection.bias == 0).all() and not projection.weight.requires_grad
    if timm_name:  # the release builds timm's network like this
        theirs = timm.create_model(timm_name, depth=1, weight_init='moco').patch_embed
        assert theirs.proj.weight.abs().max().item() == pytest.approx(0.0361, rel=2e-3)
        assert theirs.proj.bias.abs().max() > 0.03


def test_the_loss_takes_the_papers_side_unless_told():
    loss = BAMLoss(num_views=8)
    assert (loss.balance_rows, loss.positive_mask, loss.top_k) == (
        'targets', 'exclude', 0
    )  # fmt: skip
    assert loss.num_teacher_views == 2  # local crops are not for the teacher
    release = Config.fromfile(CONFIGS / 'vit-s16_release_400e.py').model.head.loss
    release.pop('type')
    assert BAMLoss(**release).num_teacher_views == 8


@pytest.mark.parametrize('name', ['vit-s16', 'vit-b16', 'r50', 'caformer-m36'])
def test_the_learning_rate_ends_at_zero(name):
    cfg = Config.fromfile(CONFIGS / f'{name}_300e.py')
    (cosine,) = (s for s in cfg.param_scheduler if s.type == 'CosineAnnealingLR')
    assert cosine.end == cfg.train_cfg.max_epochs == 300
    assert not {'eta_min', 'eta_min_ratio'} & set(cosine)  # mmengine's default is 0


def test_lars_is_mmpretrains_and_nearly_the_releases():
    """Both by hand, over steps whose learning rate falls."""
    cfg = Config.fromfile(CONFIGS / 'r50_300e.py').optim_wrapper.optimizer
    momentum, decay, eta = cfg.momentum, cfg.weight_decay, 0.001
    torch.manual_seed(0)
    start, target = torch.randn(2, 6, 5, dtype=torch.float64)
    rates = [4.8, 4.79, 4.77]

    def run(step):
        w, v = start.clone(), torch.zeros_like(start)
        for rate in rates:
            w, v = step(w, v, w - target, rate)
        return w

    def separate_norms(w, v, g, rate):
        local = eta * w.norm() / (g.norm() + decay * w.norm())
        v = momentum * v + rate * local * (g + decay * w)
        return w - v, v

    def release(w, v, g, rate):
        g = g + decay * w
        v = momentum * v + eta * w.norm() / g.norm() * g
        return w - rate * v, v

    weight = torch.nn.Parameter(start.clone())
    optimizer = OPTIMIZERS.build(dict(cfg, params=[weight], _scope_='mmpretrain'))
    for rate in rates:
        optimizer.param_groups[0]['lr'] = rate
        weight.grad = weight.detach() - target
        optimizer.step()
    ours = weight.detach()
    torch.testing.assert_close(ours, run(separate_norms), rtol=1e-7, atol=1e-8)
    moved = (ours - start).norm()
    difference = (ours - run(release)).norm() / moved
    assert 1e-5 < difference < 1e-2
