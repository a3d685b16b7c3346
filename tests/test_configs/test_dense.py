"""Detection and segmentation from a checkpoint of pre-training, at tiny scale."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import MODELS, DefaultScope
from mmengine.runner import Runner

from mmbam.checkpoints import load_backbone, load_training_checkpoint
from mmbam.datasets.coco import encode_mask
from mmbam.demo.world import make_world
from mmbam.demo.world.layouts import COCO_CATEGORIES
from mmbam.engine.launch import build_runner, load_config, set_test, train
from mmbam.utils.errors import InputError
from tests.helpers.networks import timm_vit

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / 'configs' / 'benchmarks'
CONFIGS = sorted(
    path.relative_to(ROOT / 'configs').as_posix()
    for task in ('coco', 'ade20k')
    for path in (BENCHMARKS / task).glob('*.py')
)
TINY = {
    'resnet': ('cascade-mask-rcnn_resnet_world', 'upernet_resnet_world'),
    'vit': ('cascade-mask-rcnn_vit_world', 'upernet_vit_world'),
}
TINY_CONFIGS = [f'tiny/{name}.py' for names in TINY.values() for name in names]
METRICS = {
    'mmdet': ('coco/bbox_mAP', 'coco/segm_mAP'),
    'mmseg': ('mIoU', 'mAcc'),
}


@pytest.fixture(scope='module')
def world(tmp_path_factory) -> dict[str, Path]:
    """Four scenes to train on and three to test; most classes are not in them."""
    roots = make_world(
        tmp_path_factory.mktemp('dense') / 'world',
        patches=(16, 16),
        patch_size=16,
        scenes=(4, 3),
        scene_size=64,
        videos=(0, 0),
        progress=False,
    )
    return {layout: Path(root) for layout, root in roots.items()}


@functools.cache
def _read(config: str) -> Config:
    return load_config(str(ROOT / 'configs' / config))  # takes a second or two


def read(config: str) -> Config:
    return copy.deepcopy(_read(config))


def load(config: str, world: dict[str, Path], work_dir: Path) -> Config:
    """A config with the root of made data and a schedule of one or two steps."""
    cfg = read(config)
    cfg.work_dir = str(work_dir)
    root = world['coco' if cfg.default_scope == 'mmdet' else 'ade20k']
    set_root(cfg, root)
    cfg.train_dataloader.batch_size = 2
    for name in ('train', 'val', 'test'):
        cfg[f'{name}_dataloader'].update(num_workers=0, persistent_workers=False)
    cfg.param_scheduler = []
    if cfg.default_scope == 'mmdet':
        cfg.train_cfg.update(max_epochs=1, val_interval=1)
    else:
        cfg.train_cfg.update(max_iters=2, val_interval=2)
        cfg.default_hooks.checkpoint.interval = 2
    cfg.log_level = 'WARNING'
    return cfg


def set_root(cfg: Config, root: Path) -> None:
    for name in ('train', 'val', 'test'):
        cfg[f'{name}_dataloader'].dataset.data_root = str(root)
    if cfg.default_scope == 'mmdet':
        for name in ('val', 'test'):
            path = root / 'annotations' / 'instances_val2017.json'
            cfg[f'{name}_evaluator'].ann_file = str(path)


def shrink(cfg: Config) -> None:
    """Small images and few regions; the network keeps its size."""

    def walk(node):
        for step in node:
            if isinstance(step, list):
                walk(step)
            elif 'transforms' in step:
                walk(step['transforms'])
            elif 'scales' in step:
                step['scales'] = [(64, 96), (80, 96)]
            elif 'scale' in step:
                step['scale'] = (64, 64)
            elif 'crop_size' in step:
                step['crop_size'] = (48, 64)

    for name in ('train', 'val', 'test'):
        walk(cfg[f'{name}_dataloader'].dataset.pipeline)
    if cfg.default_scope == 'mmdet':
        cfg.model.train_cfg.rpn_proposal.update(nms_pre=50, max_per_img=20)
        for stage in cfg.model.train_cfg.rcnn:
            stage.sampler.num = 8
        cfg.model.test_cfg.rpn.update(nms_pre=50, max_per_img=10)
        cfg.model.test_cfg.rcnn.max_per_img = 5
    else:
        cfg.model.data_preprocessor.size = (64, 64)
        if cfg.model.test_cfg.mode == 'slide':
            cfg.model.test_cfg.update(crop_size=(48, 48), stride=(32, 32))


def pretrain(
    config: str, path: Path, roles: tuple[str, ...], **backbone
) -> torch.nn.Module:
    """Save what pre-training leaves, and return the last role's backbone.

    Each network has random weights of its own.
    """
    cfg = read(config).model.backbone
    state = {}
    for seed, role in enumerate(roles):
        torch.manual_seed(seed)
        network = MODELS.build(dict(cfg, _scope_='mmpretrain', **backbone))
        for name, value in network.state_dict().items():
            if name.endswith('running_var'):
                value.uniform_(0.5, 1.5)
            elif value.is_floating_point() and value.dim() < 4:
                value.uniform_(-0.05, 0.05)
        prefix = dict(student='backbone.', teacher='teacher.backbone.')[role]
        state.update({prefix + k: v for k, v in network.state_dict().items()})
    torch.save(dict(state_dict=state), path)
    return network


@pytest.fixture(scope='module')
def tiny_checkpoints(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp('checkpoints')
    for kind in TINY:
        roles = ('student', 'teacher')
        pretrain(f'tiny/bam_{kind}_32px.py', folder / f'{kind}.pth', roles)
    return {kind: folder / f'{kind}.pth' for kind in TINY}


class Look(Hook):
    """Keep what the backbone makes of an image when training begins."""

    priority = 'LOWEST'

    def before_train(self, runner: Runner) -> None:
        self.maps = maps(runner.model.backbone)


def maps(backbone: torch.nn.Module) -> list[torch.Tensor]:
    """Features of an image that is neither square nor of the size of pre-training."""
    image = torch.linspace(-1, 1, 3 * 64 * 96).view(1, 3, 64, 96)
    training = backbone.training
    backbone.eval()
    with torch.no_grad():
        out = backbone(image)
    backbone.train(training)
    return list(out)


@pytest.mark.slow
@pytest.mark.parametrize('config', CONFIGS)
def test_steps_begin_with_the_features_of_pretraining(
    config, world, tmp_path, monkeypatch
):
    """In full size but for the images."""
    cfg = load(config, world, tmp_path)
    shrink(cfg)
    cfg.val_dataloader = cfg.val_cfg = cfg.val_evaluator = None
    cfg.default_hooks.checkpoint = None
    cfg.train_dataloader.batch_size = 4  # all of it: one step
    if cfg.default_scope == 'mmseg':
        cfg.train_cfg.max_iters = 1
    network = Path(config).name.split('_')[0]
    vit = network.startswith('vit')
    out = dict(out_type='raw', out_indices=list(range(12)))
    out = out if vit else dict(out_indices=cfg.model.backbone.out_indices)
    saved = tmp_path / 'bam.pth'
    teacher = pretrain(f'bam/{network}_300e.py', saved, ('teacher',), **out)
    monkeypatch.setenv('MMBAM_CHECKPOINT', str(saved))
    runner = build_runner(cfg)
    look = Look()
    runner.register_hook(look)
    runner.train()
    saved.unlink()

    expected = maps(teacher)
    if vit:
        expected = [expected[block - 1] for block in (4, 6, 8)]
        norm = teacher.ln1
        teacher.ln1 = torch.nn.Identity()
        expected.append(maps(teacher)[-1])  # of block 12 without its norm
        teacher.ln1 = norm
        if cfg.default_scope == 'mmseg':
            expected = [norm(tokens).detach() for tokens in expected]
        expected = [t[:, 1:].mT.unflatten(2, (4, 6)) for t in expected]
    assert len(look.maps) == len(expected) == 4
    for got, wanted in zip(look.maps, expected):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
        assert wanted.std() > 0
    assert runner.iter == 1
    assert np.isfinite(runner.message_hub.get_scalar('train/loss').current())
    state = runner.model.backbone.state_dict()
    assert len(state) == len(teacher.state_dict()) - 2 * (vit and 'coco' in config)
    for name, value in teacher.state_dict().items():
        if name in state:
            assert not torch.equal(state[name], value), f'{name} is not trained'


@pytest.mark.slow
@pytest.mark.parametrize('config', TINY_CONFIGS)
def test_trains_and_is_tested_from_its_checkpoint(
    config, world, tiny_checkpoints, tmp_path, monkeypatch
):
    kind = 'vit' if 'vit' in config else 'resnet'
    monkeypatch.setenv('MMBAM_CHECKPOINT', str(tiny_checkpoints[kind]))
    cfg = load(config, world, tmp_path / 'train')
    runner = build_runner(cfg)
    runner.train()
    names = METRICS[cfg.default_scope]
    last = [runner.message_hub.get_scalar(f'val/{name}').current() for name in names]
    assert all(0 <= value <= 100 for value in last)  # and none is NaN

    monkeypatch.delenv('MMBAM_CHECKPOINT')  # the model's own file has it all
    cfg = load(config, world, tmp_path / 'test')
    (checkpoint,) = (tmp_path / 'train').glob('*.pth')
    set_test(cfg, str(checkpoint))
    result = build_runner(cfg).test()
    assert [result[name] for name in names] == pytest.approx(last)


def half_of(checkpoint: Path, out: Path) -> None:
    """The file of an interrupted copy: the last weights are missing."""
    state = load_training_checkpoint(checkpoint)['state_dict']
    names = [name for name in state if name.startswith('teacher.')]
    torch.save({name: state[name] for name in names[: len(names) // 2]}, out)


@pytest.mark.parametrize('config', TINY_CONFIGS[:2])
def test_a_file_that_half_fits_is_refused(
    config, world, tiny_checkpoints, tmp_path, monkeypatch
):
    half_of(tiny_checkpoints['resnet'], tmp_path / 'half.pth')
    monkeypatch.setenv('MMBAM_CHECKPOINT', str(tmp_path / 'half.pth'))
    runner = build_runner(load(config, world, tmp_path))
    message = 'half.pth.*does not fit ResNet_CIFAR; missing: '
    with pytest.raises(ValueError, match=message):
        runner.train()
    assert runner.iter == 0


@pytest.mark.parametrize('config', TINY_CONFIGS[:2])
def test_a_checkpoint_that_is_not_there_is_named(config, world, tmp_path, monkeypatch):
    monkeypatch.delenv('MMBAM_CHECKPOINT', raising=False)
    cfg = load(config, world, tmp_path / 'none')
    with pytest.raises(ValueError, match='MMBAM_CHECKPOINT'):
        build_runner(cfg).train()
    cfg = load(config, world, tmp_path / 'gone')
    cfg.merge_from_dict({'custom_hooks.0.checkpoint': 'gone.pth'})
    with pytest.raises(FileNotFoundError, match='gone.pth'):
        build_runner(cfg).train()


def test_the_student_is_taken_by_choice(world, tiny_checkpoints, tmp_path):
    cfg = load(TINY_CONFIGS[1], world, tmp_path)
    hook = {'checkpoint': str(tiny_checkpoints['resnet']), 'source': 'student'}
    cfg.merge_from_dict({f'custom_hooks.0.{key}': hook[key] for key in hook})
    cfg.train_cfg.update(max_iters=1, val_interval=9)
    cfg.optim_wrapper.optimizer.update(lr=0.0, weight_decay=0.0)
    runner = build_runner(cfg)
    runner.train()
    student = load_training_checkpoint(hook['checkpoint'])['state_dict']
    expected = student['backbone.conv1.weight']
    assert torch.equal(runner.model.backbone.conv1.weight, expected)


def write_scenes(root: Path, sizes: list[tuple[int, int]], annotate=True) -> dict:
    """Images of given heights and widths with a bright rectangle of class 3 in each.

    The last image has none. In the layouts of COCO and of ADE20K, for both splits.
    """
    rng = np.random.default_rng(0)
    layouts = {'coco': root / 'coco', 'ade20k': root / 'ade'}
    (layouts['coco'] / 'annotations').mkdir(parents=True)
    for coco, ade in (('train2017', 'training'), ('val2017', 'validation')):
        categories = [dict(id=number, name=name) for number, name in COCO_CATEGORIES]
        content = dict(images=[], annotations=[], categories=categories)
        for i, (height, width) in enumerate(sizes):
            image = rng.integers(0, 80, (height, width, 3), dtype=np.uint8)
            mask = np.zeros((height, width), bool)
            if i < len(sizes) - 1:
                mask[height // 4 : height // 2 + 3, width // 4 : width // 2 + 5] = True
            image[mask] += 150
            for path in (
                layouts['coco'] / coco / f'{i}.jpg',
                layouts['ade20k'] / 'images' / ade / f'{i}.jpg',
            ):
                path.parent.mkdir(parents=True, exist_ok=True)
                cv2.imwrite(str(path), image)
            labels = layouts['ade20k'] / 'annotations' / ade / f'{i}.png'
            labels.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(labels), np.where(mask, 4, 1).astype(np.uint8))
            content['images'].append(
                dict(id=i, file_name=f'{i}.jpg', height=height, width=width)
            )
            if annotate and mask.any():
                content['annotations'].append(
                    dict(
                        id=i + 1,
                        image_id=i,
                        category_id=4,
                        bbox=cv2.boundingRect(mask.astype(np.uint8)),
                        area=int(mask.sum()),
                        segmentation=encode_mask(mask),
                        iscrowd=0,
                    )
                )
        path = layouts['coco'] / 'annotations' / f'instances_{coco}.json'
        path.write_text(json.dumps(content))
    return layouts


@pytest.mark.slow
@pytest.mark.parametrize('config', TINY_CONFIGS)
def test_images_of_odd_sizes_train_and_are_tested(
    config, tiny_checkpoints, tmp_path, monkeypatch
):
    kind = 'vit' if 'vit' in config else 'resnet'
    monkeypatch.setenv('MMBAM_CHECKPOINT', str(tiny_checkpoints[kind]))
    sizes = [(67, 45), (41, 127), (128, 33), (35, 35), (50, 71)]
    cfg = load(config, write_scenes(tmp_path / 'data', sizes), tmp_path / 'run')
    cfg.test_dataloader = cfg.val_dataloader
    if config == 'tiny/upernet_vit_world.py':  # as the large ones are tested
        slide = dict(mode='slide', crop_size=(64, 64), stride=(43, 43))
        cfg.model.test_cfg.update(slide)
    runner = build_runner(cfg)
    runner.train()
    assert runner.iter == 2
    for name in METRICS[cfg.default_scope]:
        assert 0 <= runner.message_hub.get_scalar(f'val/{name}').current() <= 100
    shapes = []
    runner.model.eval()
    for batch in runner.test_dataloader:
        with torch.no_grad():
            (sample,) = runner.model.test_step(batch)
        if cfg.default_scope == 'mmseg':
            shapes.append(tuple(sample.pred_sem_seg.data.shape[1:]))
        else:
            shapes.append(tuple(sample.pred_instances.masks.shape[1:]))
    assert shapes == sizes


def test_a_detector_without_annotations_does_not_start(
    tiny_checkpoints, tmp_path, monkeypatch
):
    monkeypatch.setenv('MMBAM_CHECKPOINT', str(tiny_checkpoints['resnet']))
    data = write_scenes(tmp_path / 'data', [(48, 64)] * 3, annotate=False)
    runner = build_runner(load(TINY_CONFIGS[0], data, tmp_path / 'run'))
    with pytest.raises(InputError, match="training data in .*coco'.* no image"):
        train(runner)


def test_a_segmentor_without_images_does_not_start(
    tiny_checkpoints, tmp_path, monkeypatch
):
    monkeypatch.setenv('MMBAM_CHECKPOINT', str(tiny_checkpoints['resnet']))
    data = write_scenes(tmp_path / 'data', [(48, 64)] * 3)
    for path in (data['ade20k'] / 'images' / 'training').glob('*.jpg'):
        path.unlink()
    runner = build_runner(load(TINY_CONFIGS[1], data, tmp_path / 'run'))
    with pytest.raises(InputError, match="training data in .*ade'.* no image"):
        train(runner)


@pytest.mark.parametrize('config', TINY_CONFIGS[:2])
def test_files_that_are_not_there_are_named(config, tmp_path, monkeypatch):
    gone = {'coco': tmp_path / 'gone', 'ade20k': tmp_path / 'gone'}
    cfg = load(config, gone, tmp_path / 'run')
    with pytest.raises(InputError, match="there is no '.*gone/"):
        train(build_runner(cfg))


class Oracle(torch.nn.Module):
    """Predicts what is annotated."""

    def test_step(self, batch: dict) -> list:
        for sample in batch['data_samples']:
            if 'gt_sem_seg' in sample:
                sample.pred_sem_seg = sample.gt_sem_seg
                continue
            truth = sample.gt_instances
            sample.pred_instances = truth.new(
                bboxes=truth.bboxes.tensor,
                labels=truth.labels,
                scores=torch.ones(len(truth)),
                masks=torch.from_numpy(truth.masks.masks).bool(),
            )
        return batch['data_samples']


@pytest.mark.parametrize('config', TINY_CONFIGS[:2])
def test_a_category_without_instances_is_left_out_of_the_mean(config, tmp_path):
    """Of 16 classes one or two are in the images, and all of it is found."""
    data = write_scenes(tmp_path / 'data', [(64, 128)] * 3)
    cfg = load(config, data, tmp_path / 'run')
    if cfg.default_scope == 'mmdet':
        cfg.test_dataloader.dataset.pipeline[1].scale = (128, 64)
    set_test(cfg, str(data['coco'] / 'annotations' / 'instances_val2017.json'))
    cfg.load_from = None
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        loader = Runner.build_dataloader(cfg.test_dataloader)
        runner = build_runner(cfg)
        evaluator = runner.build_evaluator(cfg.test_evaluator)
        evaluator.dataset_meta = loader.dataset.metainfo
        for batch in loader:
            evaluator.process(Oracle().test_step(batch), batch)
        result = evaluator.evaluate(len(loader.dataset))
    for name in METRICS[cfg.default_scope]:
        assert result[name] == (1.0 if cfg.default_scope == 'mmdet' else 100.0)


@pytest.mark.parametrize(
    'config, norm',
    [
        ('coco/vit-b16_cascade-mask-rcnn_12e.py', False),
        ('coco/vit-s16_cascade-mask-rcnn_12e.py', False),
        ('ade20k/vit-b16_upernet_160k.py', True),
        ('ade20k/vit-s16_upernet_160k.py', True),
    ],
)
@torch.no_grad()
def test_the_four_levels_are_those_of_timm(config, norm, tmp_path):
    """No final norm on any level for COCO, the final norm on each for ADE20K."""
    theirs = timm_vit(depth=12)
    torch.save(theirs.state_dict(), tmp_path / 'vit.pth')
    cfg = dict(read(f'benchmarks/{config}').model.backbone)
    arch = dict(embed_dims=24, num_layers=12, num_heads=4, feedforward_channels=48)
    cfg.update(arch=arch, img_size=32, patch_size=8)
    ours = MODELS.build(cfg)
    load_backbone(ours, tmp_path / 'vit.pth')
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    levels = theirs.forward_intermediates(
        images, indices=[3, 5, 7, 11], norm=norm, intermediates_only=True
    )
    ours.eval()
    got = ours(images)
    assert len(got) == 4
    for mine, wanted in zip(got, levels):
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)


def test_recipes_are_ibots_around_the_task_layers_of_the_paper():
    coco = read('benchmarks/coco/vit-b16_cascade-mask-rcnn_12e.py')
    assert coco.optim_wrapper.optimizer == dict(
        type='AdamW', lr=1e-4, weight_decay=0.05
    )
    assert coco.optim_wrapper.paramwise_cfg.layer_decay_rate == 0.75
    assert coco.train_cfg.max_epochs == 12
    assert coco.param_scheduler[-1].milestones == [8, 11]
    assert coco.model.backbone.drop_path_rate == 0.2
    for head in coco.model.roi_head.bbox_head:
        assert head.type == 'Shared4Conv1FCBBoxHead'
        assert head.loss_bbox == dict(type='GIoULoss', loss_weight=10.0)
    scales = coco.multi_scale.scales
    assert scales[0] == (480, 1333) and scales[-1] == (800, 1333)

    (choice,) = (s for s in coco.train_pipeline if s.type == 'RandomChoice')
    first, crop, second = choice.transforms[1]
    assert choice.transforms[0] == [second] and second.scales == scales
    assert first.scales == [(400, 1333), (500, 1333), (600, 1333)]
    assert crop.crop_size == (384, 600)

    ade = read('benchmarks/ade20k/vit-b16_upernet_160k.py')
    assert ade.optim_wrapper.optimizer == dict(type='AdamW', lr=8e-5, weight_decay=0.05)
    assert ade.optim_wrapper.paramwise_cfg.layer_decay_rate == 0.65
    assert ade.train_cfg.max_iters == ade.param_scheduler[-1].end == 160000
    assert ade.param_scheduler[0].end == ade.param_scheduler[1].begin == 1500
    assert ade.model.backbone.drop_path_rate == 0.1
    assert ade.model.test_cfg == dict(
        mode='slide', crop_size=(512, 512), stride=(341, 341)
    )
    small = read('benchmarks/coco/vit-s16_cascade-mask-rcnn_12e.py')
    assert small.optim_wrapper.paramwise_cfg.layer_decay_rate == 0.8
    assert small.optim_wrapper.optimizer == coco.optim_wrapper.optimizer
    assert small.model.backbone.drop_path_rate == 0.1
    small = read('benchmarks/ade20k/vit-s16_upernet_160k.py')
    assert small.optim_wrapper.optimizer.lr == 3e-5
    assert small.optim_wrapper.paramwise_cfg.layer_decay_rate == 0.9
    for config in CONFIGS:
        cfg = read(config)
        whole = cfg.train_dataloader.batch_size * 8
        assert whole == cfg.auto_scale_lr.base_batch_size
        assert whole == (32 if 'coco/vit-s16' in config else 16)
        assert cfg.custom_hooks[0] == dict(type='mmbam.PretrainedBackboneHook')
        if 'vit' in config:
            assert cfg.model.backbone.out_indices == (3, 5, 7, 11)  # blocks from 0


def test_runs_have_folders_of_their_own():
    stems = [path.stem for path in (ROOT / 'configs').rglob('*.py')]
    configs = [*CONFIGS, *TINY_CONFIGS]
    assert all(stems.count(Path(config).stem) == 1 for config in configs)
