"""Pre-training on 5 bands of 16 bits, with every hook, and segmentation from it."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
import torch
from mmengine.config import Config

from benchmarks.band_world import BANDS, CLASSES, draw_band_image, make_band_world
from mmbam.checkpoints import load_training_checkpoint
from mmbam.engine.launch import build_runner, load_config
from tests.helpers.run import ROOT

pytestmark = pytest.mark.slow
EPOCHS = 10
TINY = ROOT / 'configs/tiny'


@pytest.fixture(scope='module')
def world(tmp_path_factory) -> Path:
    return make_band_world(tmp_path_factory.mktemp('bands'), train=800, test=200)


def config(world: Path, work_dir: Path, depth, epochs: int) -> Config:
    places = ['train_dataloader.dataset'] + [
        f'custom_hooks.1.{split}_dataset' for split in ('train', 'test')
    ]
    options = {f'{place}.data_root': str(world) for place in places}
    for place in places:
        options[f'{place}.pipeline.0.depth'] = depth
        options[f'{place}.pipeline.0.bits'] = 16
    if depth == 8:
        options['train_dataloader.dataset.pipeline.1.value_range'] = (64, 66)
        options['data_preprocessor.mean'] = [64.05] * BANDS
        options['data_preprocessor.std'] = [0.22] * BANDS
    options.update(
        {
            'train_cfg.max_epochs': epochs,
            'param_scheduler.1.end': epochs,
            'custom_hooks.1.interval': epochs,
            'train_dataloader.num_workers': 0,
            'train_dataloader.persistent_workers': False,
            'log_level': 'WARNING',
        }
    )
    cfg = load_config(str(TINY / 'bam_resnet_bands.py'), str(work_dir), options)
    cfg.custom_hooks.append(dict(type='mmbam.MonitorHook', interval=5))
    return cfg


def accuracy(runner) -> float:
    return runner.message_hub.get_info('knn_history')[-1]['top1']


@pytest.fixture(scope='module')
def trained(world, tmp_path_factory):
    """A run with boxes, monitor and k-NN, and an image that cannot be read."""
    work_dir = tmp_path_factory.mktemp('run')
    (world / 'train' / 'bands_0_1' / 'bad.tif').write_bytes(b'nothing')
    cfg = config(world, work_dir, 'full', EPOCHS)
    cfg.custom_hooks.append(
        dict(
            type='mmbam.LocalizeHook',
            start_epoch=EPOCHS - 2,
            interval=1,
            image_size=32,
            batch_size=200,
            num_workers=0,
        )
    )
    # The bad image stays out of the k-NN, which allows none.
    for split in ('train_dataset', 'test_dataset'):
        cfg.custom_hooks[1][split].pipeline[0].max_errors = 1
    runner = build_runner(cfg)
    runner.train()
    (world / 'train' / 'bands_0_1' / 'bad.tif').unlink()
    return runner, work_dir / f'epoch_{EPOCHS}.pth'


def test_bam_learns_what_only_the_low_bits_show(trained):
    runner, checkpoint = trained
    assert accuracy(runner) >= 60  # chance is 12.5
    scalars = runner.message_hub.log_scalars
    assert np.isfinite(scalars['train/monitor/rankme'].current())
    boxes = load_training_checkpoint(checkpoint)['mmbam_boxes']['boxes']
    assert boxes.isnan().any(dim=1).sum() == 1, 'of the bad image alone'
    weights = runner.model.state_dict()
    assert weights['backbone.conv1.weight'].shape[1] == BANDS


def test_8_bits_leave_chance(world, tmp_path):
    runner = build_runner(config(world, tmp_path, 8, epochs=2))
    runner.train()
    assert accuracy(runner) < 22  # 12.5 +- 4 x 2.3 for 200 images


def test_upernet_takes_over_every_weight(trained, tmp_path, monkeypatch):
    _, checkpoint = trained
    root = tmp_path / 'ade'
    rng = np.random.default_rng(0)
    for split, number in (('training', 4), ('validation', 2)):
        for i in range(number):
            image = draw_band_image(i % len(CLASSES), 64, rng)
            labels = rng.integers(1, 4, (64, 64)).astype(np.uint8)
            for kind in ('images', 'annotations'):
                (root / kind / split).mkdir(parents=True, exist_ok=True)
            tifffile.imwrite(
                root / f'images/{split}/{i}.tif',
                image,
                photometric='minisblack',
                planarconfig='contig',
            )
            cv2.imwrite(str(root / f'annotations/{split}/{i}.png'), labels)
    options = {
        f'{name}_dataloader.dataset.data_root': str(root)
        for name in ('train', 'val', 'test')
    }
    options.update({f'{n}_dataloader.num_workers': 0 for n in ('train', 'val', 'test')})
    options.update({f'{n}_dataloader.persistent_workers': False
                    for n in ('train', 'val', 'test')})  # fmt: skip
    options.update({'train_dataloader.batch_size': 2, 'train_cfg.max_iters': 2,
                    'train_cfg.val_interval': 2, 'log_level': 'WARNING'})  # fmt: skip
    path = TINY / 'upernet_resnet_bands.py'
    cfg = load_config(str(path), str(tmp_path / 'seg'), options)
    cfg.param_scheduler = []
    # Weights that do not move show what was loaded.
    cfg.optim_wrapper.optimizer = dict(type='SGD', lr=0.0)
    monkeypatch.setenv('MMBAM_CHECKPOINT', str(checkpoint))
    runner = build_runner(cfg)
    runner.train()
    assert np.isfinite(runner.message_hub.get_scalar('train/loss').current())
    assert 'val/mIoU' in runner.message_hub.log_scalars
    theirs = load_training_checkpoint(checkpoint)['state_dict']
    prefix = 'teacher.backbone.'
    expected = {n.removeprefix(prefix): w for n, w in theirs.items() if prefix in n}
    got = dict(runner.model.backbone.named_parameters())
    assert set(got) <= set(expected) and len(got) > 20
    for name, weight in got.items():
        assert torch.equal(weight, expected[name]), name
