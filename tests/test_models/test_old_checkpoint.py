"""A run that the code of version 0 began ends with the numbers that it got itself.

``tests/data/checkpoint_0.pth`` was written after the first of two epochs by commit
ae05f24, with :func:`make_runner` as it stands here; the same run went on to its end
and gave the numbers below. In double precision, the numbers do not depend on the
version of torch.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.registry import MODELS
from mmengine.runner import Runner

from tests.helpers.tiny import VIT, bam_config

CHECKPOINT = Path(__file__).parents[1] / 'data' / 'checkpoint_0.pth'
LOSSES = [5.164395697355164, 4.960225227813411]
STUDENT, TEACHER = -0.18295555883936743, -0.15761861874643834


class Losses(Hook):
    def __init__(self) -> None:
        self.seen: list[float] = []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.seen.append(outputs['loss'].item())


def make_runner(work_dir: Path, losses: Losses, **kwargs) -> Runner:
    """Two epochs of two iterations over twelve images, all values given by sines."""
    arch = dict(embed_dims=8, num_layers=2, num_heads=2, feedforward_channels=16)
    cfg = bam_config(
        dict(VIT, arch=arch, img_size=16),
        teacher=dict(type='mmbam.EMATeacher', momentum=0.5),
    )
    cfg['data_preprocessor'] = dict(type='mmengine.BaseDataPreprocessor')
    # Larger weights than the default's, or all latents fall together in two steps.
    init = dict(type='TruncNormal', layer='Linear', std=0.5)
    cfg['neck'].update(in_channels=8, hid_channels=16, out_channels=8, init_cfg=init)
    model = MODELS.build(cfg).double()
    images = [
        dict(inputs=[wave((3, s, s), i + 20 * v) for v, s in enumerate((16, 16, 8, 8))])
        for i in range(12)
    ]
    return Runner(
        model,
        work_dir=str(work_dir),
        train_dataloader=dict(
            dataset=images,
            batch_size=6,
            sampler=dict(type='DefaultSampler', shuffle=False),
            collate_fn=dict(type='default_collate'),
        ),
        train_cfg=dict(by_epoch=True, max_epochs=2),
        optim_wrapper=dict(
            optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.1),
            clip_grad=dict(max_norm=1.0),
        ),
        param_scheduler=dict(type='CosineAnnealingLR', by_epoch=False, T_max=4),
        default_hooks=dict(checkpoint=dict(type='CheckpointHook', interval=1)),
        custom_hooks=[losses],
        randomness=dict(seed=0),
        experiment_name=work_dir.name,
        log_level='ERROR',
        **kwargs,
    )


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return torch.sin(phase + 0.37 * (1 + phase) * steps).view(shape)


def checksum(module: torch.nn.Module) -> float:
    """A weighted sum, so that two values that change places show."""
    values = torch.cat([p.detach().flatten() for p in module.parameters()])
    return float(values @ wave(values.shape, 1.0))


def test_it_resumes_to_the_end(tmp_path):
    losses = Losses()
    runner = make_runner(tmp_path, losses, resume=True, load_from=str(CHECKPOINT))
    model = runner.train()
    assert losses.seen == pytest.approx(LOSSES, abs=1e-6)
    student = torch.nn.ModuleList([model.backbone, model.neck])
    assert checksum(student) == pytest.approx(STUDENT, abs=1e-6)
    assert checksum(model.teacher) == pytest.approx(TEACHER, abs=1e-6)
