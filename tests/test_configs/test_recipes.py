"""Every pre-training config builds and takes training steps, at tiny scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, PARAM_SCHEDULERS
from PIL import Image

from mmbam.engine.launch import build_runner, load_config

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ('bam/**/*.py', 'tiny/bam_*.py')
    for path in (ROOT / 'configs').glob(pattern)
    if 'bands' not in path.name  # which tests/test_engine/test_bands.py trains
)
SMALLER = {224: 64, 96: 32}


@pytest.fixture(scope='module')
def images(tmp_path_factory) -> Path:
    """Six images in the layout of ImageNet."""
    root = tmp_path_factory.mktemp('images')
    rng = np.random.default_rng(0)
    (root / 'meta').mkdir()
    for split in ('train', 'val'):
        lines = []
        for i in range(6):
            file = root / split / f'class{i % 2}' / f'{i}.jpg'
            file.parent.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(file)
            lines.append(f'{file.parent.name}/{file.name} {i % 2}\n')
        (root / f'meta/{split}.txt').write_text(''.join(lines))
    return root


def shrink(cfg: Config, images: Path) -> None:
    """Six images, small views, a narrow projector, two steps, no waiting."""
    loader = cfg.train_dataloader
    loader.update(batch_size=3, num_workers=0, persistent_workers=False)
    loader.pop('prefetch_factor', None)  # of workers
    if 'micro_batch_size' in cfg.model:
        cfg.model.micro_batch_size = 2
    loader.dataset.data_root = str(images)
    if loader.dataset.type == 'mmbam.FolderDataset':
        loader.dataset.data_root = str(images / 'train')
    for step in loader.dataset.pipeline:
        for view in step.get('views', []):
            view.size = SMALLER.get(view.size, view.size)
        for crop, *_ in step.get('transforms', []):
            crop.scale = SMALLER[crop.scale]
    for hook in cfg.custom_hooks:
        if hook.type == 'mmbam.LocalizeHook':
            hook.update(start_epoch=0, image_size=64, batch_size=3)
        if hook.type == 'mmbam.KNNHook':
            hook.update(k=2, fraction=1.0)
            for name in ('train_dataset', 'test_dataset'):
                hook[name].data_root = str(images)
                hook[name].pipeline.insert(1, dict(type='Resize', scale=(32, 32)))
    backbone = cfg.model.backbone
    if backbone.type == 'mmbam.ClsViT' and isinstance(backbone.arch, str):
        with torch.device('meta'):  # in full size, without the memory for it
            whole = MODELS.build(backbone)
        backbone.arch = dict(whole.arch_settings, num_layers=2)
    cfg.model.neck.hid_channels = 64
    if cfg.model.neck.out_channels == 4096:
        cfg.model.neck.out_channels = 64
    cfg.train_cfg.max_epochs = 1
    cfg.log_level = 'WARNING'
    cfg.default_hooks.checkpoint.interval = -1


@pytest.mark.slow
@pytest.mark.parametrize('config', CONFIGS)
def test_builds_and_trains(config, images, tmp_path, monkeypatch):
    cfg = load_config(str(ROOT / config), work_dir=str(tmp_path))
    shrink(cfg, images)
    if 'distill' in config:
        teacher = MODELS.build(dict(cfg.model.teacher.backbone, _scope_='mmpretrain'))
        cfg.model.teacher.checkpoint = save(teacher, tmp_path / 'teacher.pth')
    if 'adapt' in config:
        weights = MODELS.build(dict(cfg.model.backbone, _scope_='mmpretrain'))
        monkeypatch.setenv('MMBAM_CHECKPOINT', save(weights, tmp_path / 'vit.pth'))
    runner = build_runner(cfg)
    runner.train()
    assert runner.iter == 2
    history = runner.message_hub.get_scalar('train/loss').data[0]
    assert len(history) == 2 and np.isfinite(history).all()


def save(model: torch.nn.Module, path: Path) -> str:
    torch.save(dict(state_dict=model.state_dict()), path)
    return str(path)


def test_recipes_say_what_the_paper_says():
    vit = Config.fromfile(ROOT / 'configs/bam/vit-b16_300e.py')
    assert vit.optim_wrapper.optimizer == dict(
        type='AdamW', lr=0.003, weight_decay=0.04
    )
    assert vit.optim_wrapper.clip_grad.max_norm == 0.3
    assert vit.train_cfg.max_epochs == 300 and vit.param_scheduler[0].end == 40
    assert vit.train_dataloader.batch_size * 16 == vit.auto_scale_lr.base_batch_size
    loss = vit.model.head.loss
    assert (loss.num_views, loss.tau, loss.tau_b) == (8, 0.1, 0.05)
    hooks = {hook.type: hook for hook in vit.custom_hooks}
    boxes = hooks['mmbam.LocalizeHook']
    assert (boxes.start_epoch, boxes.interval) == (40, 20)
    resnet = Config.fromfile(ROOT / 'configs/bam/r50_300e.py')
    assert resnet.optim_wrapper.optimizer.lr == pytest.approx(0.3 * 4096 / 256)
    assert resnet.optim_wrapper.optimizer.weight_decay == 1e-6


def test_one_gpu_sees_the_batch_of_sixteen():
    one = Config.fromfile(ROOT / 'configs/bam/vit-s16_1gpu_300e.py')
    assert one.train_dataloader.batch_size == one.auto_scale_lr.base_batch_size == 4096
    sixteen = Config.fromfile(ROOT / 'configs/bam/vit-s16_300e.py')
    assert one.model.pop('micro_batch_size') == 64
    assert one.model == sixteen.model
    assert one.optim_wrapper == sixteen.optim_wrapper


def test_the_views_are_those_of_the_release():
    cfg = Config.fromfile(ROOT / 'configs/bam/vit-s16_300e.py')
    (crop,) = (s for s in cfg.train_pipeline if s.type == 'mmbam.MultiCrop')
    assert crop.alpha == 0.6
    large, second, small = crop.views
    assert [view.get('num', 1) for view in crop.views] == [1, 1, 6]
    assert large.area == second.area == (0.25, 1.0) and small.area == (0.05, 0.25)
    assert [view.blur for view in crop.views] == [1.0, 0.1, 0.5]
    assert [view.get('solarize', 0) for view in crop.views] == [0, 0.2, 0]
    for view in crop.views:
        assert (view.flip, view.jitter, view.gray) == (0.5, 0.8, 0.2)
        assert view.strength == (0.4, 0.4, 0.4, 0.1) and view.sigma == (0.1, 2.0)
    step_by_step = Config.fromfile(ROOT / 'configs/bam/vit-s16_multiview_300e.py')
    (views,) = (s for s in step_by_step.train_pipeline if s.type == 'MultiView')
    assert views.num_views == [1, 1, 6]
    for view, (crop, flip, jitter, gray, blur, *rest) in zip(
        (large, second, small), views.transforms
    ):
        assert (crop.scale, crop.crop_ratio_range) == (view.size, view.area)
        assert [flip.prob, gray.prob, blur.prob] == [view.flip, view.gray, view.blur]
        assert jitter.prob == view.jitter and blur.sigma == view.sigma
        strength = jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue
        assert strength == view.strength
        assert [step.prob for step in rest] == [0.2] * ('solarize' in view)


def test_the_release_recipe_says_what_its_script_says():
    cfg = Config.fromfile(ROOT / 'configs/bam/vit-s16_release_400e.py')
    assert cfg.optim_wrapper.optimizer.lr == pytest.approx(0.0048)
    warmup, cosine, decay = cfg.param_scheduler
    assert (warmup.end, cosine.begin) == (40, 40)
    assert cosine.end == decay.end == cfg.train_cfg.max_epochs == 400
    rates = schedule(cfg, cosine, 'lr', 360)
    assert rates[0] == pytest.approx(0.0048) and rates[-1] == pytest.approx(
        1e-3, rel=1e-3
    )
    loss = cfg.model.head.loss
    assert (loss.top_k, loss.balance_rows, loss.tau_b) == (128, 'all', 0.05)
    hooks = {hook.type: hook for hook in cfg.custom_hooks}
    boxes = hooks['mmbam.LocalizeHook']
    assert (boxes.start_epoch, boxes.interval) == (40, 40)


def schedule(cfg: Config, scheduler: dict, name: str, steps: int) -> list[float]:
    """Values of a hyper-parameter of matrices, one epoch after the other."""
    return [values[2] for values in schedule_by_dim(cfg, scheduler, name, steps)]


def schedule_by_dim(
    cfg: Config, scheduler: dict, name: str, steps: int
) -> list[dict[int, float]]:
    """Values by the dimensions of the parameter, on a tiny model."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    optim_wrapper = dict(cfg.optim_wrapper, type='OptimWrapper')
    optim_wrapper.pop('loss_scale')
    wrapper = build_optim_wrapper(model, optim_wrapper)
    scheduler = dict(scheduler, begin=0, end=scheduler['end'] - scheduler['begin'])
    scheduler.pop('convert_to_iter_based')
    built = PARAM_SCHEDULERS.build(
        scheduler, default_args=dict(optimizer=wrapper.optimizer)
    )

    def read() -> dict[int, float]:
        # mmengine adds a group of its own with a scalar.
        groups = ((g['params'][0].dim(), g) for g in wrapper.param_groups)
        return {dim: group[name] for dim, group in groups if dim}

    values = [read()]
    for _ in range(steps):
        wrapper.optimizer.step()
        built.step()
        values.append(read())
    return values


def test_weight_decay_rises_tenfold_and_leaves_biases_without():
    cfg = Config.fromfile(ROOT / 'configs/bam/vit-s16_300e.py')
    values = schedule_by_dim(cfg, cfg.param_scheduler[2], 'weight_decay', 300)
    assert values[0] == {2: 0.04, 1: 0.0}
    assert values[-1] == {2: pytest.approx(0.4, rel=1e-3), 1: 0.0}


def test_ablations_differ_from_the_baseline_in_their_ingredient_alone():
    baseline = Config.fromfile(ROOT / 'configs/bam/vit-s16_150e.py')
    keys = {
        'no_positive_mask': {'model'},
        'no_global_norm': {'model'},
        'no_balancing': {'model'},
        'no_teacher': {'model'},
        'no_multi_crop': {'model', 'train_pipeline', 'train_dataloader'},
        'no_contrastive_crop': {'custom_hooks'},
    }
    paths = sorted((ROOT / 'configs/bam/ablations').glob('*.py'))
    assert {path.stem for path in paths} == set(keys)
    for path in paths:
        cfg = Config.fromfile(path)
        changed = {
            k
            for k in set(cfg.keys()) | set(baseline.keys())
            if cfg.get(k) != baseline.get(k)
        }
        assert changed == keys[path.stem]


def test_the_index_names_configs_that_exist():
    index = yaml.safe_load((ROOT / 'model-index.yml').read_text())
    models = [
        model
        for metafile in index['Import']
        for model in yaml.safe_load((ROOT / metafile).read_text())['Models']
    ]
    assert models
    for model in models:
        assert (ROOT / model['Config']).is_file(), model['Name']
