"""Stopping BAM at any epoch and resuming gives the weights of never stopping."""

import cv2
import numpy as np
import pytest
import torch
from mmengine.runner import Runner

from tests.helpers.tiny import VIT, bam_config

EPOCHS = 3


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / 'photos'
    folder.mkdir()
    for i in range(10):
        image = rng.integers(0, 255, (6, 6, 3), np.uint8)
        image = cv2.resize(image, (48, 40), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / f'{i}.png'), image)
    return folder


def run(photos, name, epochs=EPOCHS, workers=0, **kwargs):
    """A run with everything that draws or remembers: views, boxes, teacher, drops."""
    backbone = dict(VIT, drop_path_rate=0.5)
    teacher = dict(type='mmbam.EMATeacher', momentum=0.9)
    view = dict(blur=0.5, solarize=0.2)
    runner = Runner(
        bam_config(backbone, teacher=teacher),
        work_dir=str(photos.parent / name),
        train_dataloader=dict(
            batch_size=5,
            num_workers=workers,
            persistent_workers=workers > 0,
            sampler=dict(type='DefaultSampler', shuffle=True),
            collate_fn=dict(type='default_collate'),
            dataset=dict(
                type='mmpretrain.CustomDataset',
                data_root=str(photos),
                with_label=False,
                pipeline=[
                    dict(type='mmbam.SeedBySample'),
                    dict(type='mmbam.LoadImage'),
                    dict(
                        type='mmbam.MultiCrop',
                        views=[
                            dict(num=2, size=32, area=(0.25, 1), **view),
                            dict(num=2, size=16, area=(0.05, 0.25), **view),
                        ],
                    ),
                    dict(type='mmpretrain.PackInputs'),
                ],
            ),
        ),
        # The schedules' end does not move with the epoch that a run stops at.
        train_cfg=dict(by_epoch=True, max_epochs=epochs),
        optim_wrapper=dict(optimizer=dict(type='AdamW', lr=0.01)),
        param_scheduler=[
            dict(type='CosineAnnealingLR', T_max=EPOCHS * 2, by_epoch=False),
            dict(
                type='CosineAnnealingParamScheduler',
                param_name='weight_decay',
                eta_min=0.1,
                T_max=EPOCHS * 2,
                by_epoch=False,
            ),
        ],
        custom_hooks=[
            dict(type='mmbam.SeedByEpochHook'),
            dict(
                type='mmbam.LocalizeHook',
                start_epoch=1,
                interval=3,
                image_size=32,
                batch_size=4,
                threshold=0.5,
            ),
        ],
        randomness=dict(seed=0),
        experiment_name=f'{photos.parent.name}-{name}-{epochs}-{len(kwargs)}',
        **kwargs,
    )
    runner.train()
    return runner


@pytest.mark.parametrize('stop', [1, 2])
def test_a_resumed_run_equals_one_that_never_stopped(photos, stop):
    whole = run(photos, 'whole')
    # As if killed: all epochs were planned, and momentum and schedules knew it.
    (photos.parent / 'whole/last_checkpoint').write_text(
        str(photos.parent / f'whole/epoch_{stop}.pth')
    )
    resumed = run(photos, 'whole', workers=2, resume=True)
    expected, found = whole.model.state_dict(), resumed.model.state_dict()
    assert any(name.startswith('teacher.') for name in expected)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
    pairs = zip(
        whole.optim_wrapper.state_dict()['state'].values(),
        resumed.optim_wrapper.state_dict()['state'].values(),
    )
    for before, after in pairs:
        assert all(torch.equal(after[name], before[name]) for name in before)
    groups = [r.optim_wrapper.param_groups[0] for r in (whole, resumed)]
    for name in ('lr', 'weight_decay'):
        assert groups[0][name] == groups[1][name]
