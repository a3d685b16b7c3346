"""Every classification config downstream of pre-training runs, at tiny scale."""

from __future__ import annotations

import pickle
from pathlib import Path

import mat4py
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import MODELS, VISBACKENDS
from mmengine.runner import Runner
from mmpretrain.datasets import CIFAR10, CIFAR100
from mmpretrain.registry import DATASETS
from PIL import Image

from mmbam.engine.launch import build_runner, load_config, set_test
from mmbam.models import pool_features

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / 'configs' / 'benchmarks'
PROTOCOLS = ('linear', 'finetune', 'semi', 'transfer')
CONFIGS = sorted(
    path.relative_to(BENCHMARKS).as_posix()
    for protocol in PROTOCOLS
    for path in (BENCHMARKS / protocol).glob('*.py')
)
SIZE = 64


@pytest.fixture(scope='module')
def data(tmp_path_factory) -> Path:
    """Six images for training and six for validation, as each data set lays them."""
    root = tmp_path_factory.mktemp('data')
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)

    def save(i: int, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[i]).resize((80, 72)).save(path)

    for i in range(12):
        split = 'train' if i < 6 else 'val'
        save(i, root / f'imagenet/{split}/class{i % 2}/{i}.jpg')
        save(i, root / f'Oxford-IIIT_Pets/images/cat_{i}.jpg')
        save(i, root / f'Flowers102/jpg/image_{i + 1:05d}.jpg')

    def write(path: str, lines: list[str]) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text('\n'.join(lines))

    for name, part in (('train', range(6)), ('val', range(6, 12))):
        lines = [f'class{i % 2}/{i}.jpg {i % 2}' for i in part]
        for suffix in ('', '_1percent', '_10percent'):
            write(f'imagenet/meta/{name}{suffix}.txt', lines)
    for name, part in (('trainval', range(6)), ('test', range(6, 12))):
        lines = [f'cat_{i} {i % 2 + 1} 1 1' for i in part]
        write(f'Oxford-IIIT_Pets/annotations/{name}.txt', lines)
    flowers = root / 'Flowers102'
    labels = [i % 2 + 1 for i in range(12)]
    mat4py.savemat(str(flowers / 'imagelabels.mat'), dict(labels=labels))
    ids = dict(trnid=[1, 2, 3], valid=[4, 5, 6], tstid=[7, 8, 9, 10, 11, 12])
    mat4py.savemat(str(flowers / 'setid.mat'), ids)
    planes = pixels.transpose(0, 3, 1, 2).reshape(12, -1)
    for folder, train, test, key in (
        ('cifar10/cifar-10-batches-py', 'data_batch_1', 'test_batch', 'labels'),
        ('cifar100/cifar-100-python', 'train', 'test', 'fine_labels'),
    ):
        (root / folder).mkdir(parents=True)
        for name, part in ((train, slice(6)), (test, slice(6, 12))):
            entry = {'data': planes[part], key: [0, 1] * 3}
            (root / folder / name).write_bytes(pickle.dumps(entry))
    return root


@pytest.fixture(autouse=True)
def made_cifar(monkeypatch):
    """Let files pass that are not the real ones."""
    for kind, train, test in (
        (CIFAR10, 'data_batch_1', 'test_batch'),
        (CIFAR100, 'train', 'test'),
    ):
        monkeypatch.setattr(kind, 'train_list', [[train, None]])
        monkeypatch.setattr(kind, 'test_list', [[test, None]])


def shrink(cfg: Config, data: Path) -> None:
    """Small images, two steps, and two layers of a ViT."""
    cfg.train_dataloader.batch_size = 3
    for name in ('train', 'val', 'test'):
        loader = cfg[f'{name}_dataloader']
        loader.update(num_workers=0, persistent_workers=False, pin_memory=False)
        loader.dataset.data_root = str(data / Path(loader.dataset.data_root).name)
        for step in loader.dataset.pipeline:
            for key in ('scale', 'crop_size'):
                if key in step:
                    step[key] = {224: SIZE, 256: SIZE + 8}[step[key]]
    backbone = cfg.model.backbone
    if 'img_size' in backbone:  # a ViT
        backbone.img_size = SIZE
        width = cfg.model.head.in_channels
        width = width // 2 if backbone.out_type == 'raw' else width
        backbone.arch = dict(
            embed_dims=width, num_layers=2, num_heads=12, feedforward_channels=width
        )
    cfg.train_cfg.max_epochs = 1
    # The first step of a warm-up of epochs would change nothing.
    cfg.param_scheduler = cfg.param_scheduler[-1:]
    cfg.param_scheduler[0].update(begin=0, end=1)
    cfg.log_level = 'WARNING'


def save_random(cfg: Config, path: Path) -> dict[str, torch.Tensor]:
    """Save a backbone such as pre-training leaves: of the config's kind, unlike it."""
    torch.manual_seed(7)
    backbone = MODELS.build(dict(cfg.model.backbone, _scope_='mmpretrain'))
    backbone.init_weights()
    for name, value in backbone.state_dict().items():
        if name.endswith('running_mean'):
            value.uniform_(-0.1, 0.1)
        elif name.endswith('running_var'):
            value.uniform_(0.5, 1.5)
    weights = backbone.state_dict()
    torch.save({f'backbone.{k}': v for k, v in weights.items()}, path)
    return {name: value.clone() for name, value in weights.items()}


class Look(Hook):
    """Keep what the backbone makes of an image when training begins."""

    priority = 'LOWEST'

    def before_train(self, runner: Runner) -> None:
        self.features = features(runner.model.backbone)


def features(backbone: torch.nn.Module) -> torch.Tensor:
    image = torch.linspace(-1, 1, 3 * SIZE * SIZE).view(1, 3, SIZE, SIZE)
    training = backbone.training
    backbone.eval()
    with torch.no_grad():
        out = pool_features(backbone(image))
    backbone.train(training)
    return out


def changed(backbone: torch.nn.Module, weights: dict[str, torch.Tensor]) -> list[str]:
    state = backbone.state_dict()
    return [name for name in weights if not torch.equal(state[name], weights[name])]


@pytest.mark.slow
@pytest.mark.parametrize('config', CONFIGS)
def test_trains_from_a_checkpoint_and_validates(config, data, tmp_path, monkeypatch):
    cfg = load_config(str(BENCHMARKS / config), work_dir=str(tmp_path))
    shrink(cfg, data)
    cfg.default_hooks.checkpoint.save_last = False
    weights = save_random(cfg, tmp_path / 'pretrained.pth')
    monkeypatch.setenv('MMBAM_CHECKPOINT', str(tmp_path / 'pretrained.pth'))
    runner = build_runner(cfg)
    look = Look()
    runner.register_hook(look)
    runner.train()
    assert runner.iter == 2
    losses = runner.message_hub.get_scalar('train/loss').data[0]
    assert len(losses) == 2 and np.isfinite(losses).all()
    accuracy = runner.message_hub.get_scalar('val/accuracy/top1').current()
    assert accuracy in [pytest.approx(100 * hits / 6, abs=1e-3) for hits in range(7)]

    reference = MODELS.build(dict(cfg.model.backbone, _scope_='mmpretrain'))
    reference.load_state_dict(weights)
    assert look.features.std() > 0
    torch.testing.assert_close(look.features, features(reference))
    different = changed(runner.model.backbone, weights)
    if config.startswith('linear'):
        assert different == []
    else:  # all of it is trained, positions and patch projection too
        assert {'cls_token', 'pos_embed', 'patch_embed.projection.weight'} <= set(
            different
        )
        assert len(different) == len(weights)


@pytest.mark.slow
def test_the_probe_alone_learns_and_is_tested_from_its_checkpoint(
    data, tmp_path, monkeypatch
):
    """ResNet-50, whose batch norm would follow the images if it were let."""
    path = BENCHMARKS / 'linear/r50_linear_100e.py'
    cfg = load_config(str(path), work_dir=str(tmp_path / 'train'))
    shrink(cfg, data)
    tensorboard = ROOT / 'configs/_base_/visualizers/tensorboard.py'
    cfg.visualizer = Config.fromfile(tensorboard).visualizer
    save_random(cfg, tmp_path / 'pretrained.pth')
    monkeypatch.setenv('MMBAM_CHECKPOINT', str(tmp_path / 'pretrained.pth'))
    runner = build_runner(cfg)
    runner.train()
    assert list(tmp_path.rglob('events.out.tfevents*'))
    trained = [n for n, p in runner.model.named_parameters() if p.requires_grad]
    assert trained == ['head.fc.weight', 'head.fc.bias']
    last = runner.message_hub.get_scalar('val/accuracy/top1').current()

    cfg = load_config(str(path), work_dir=str(tmp_path / 'test'))
    shrink(cfg, data)
    monkeypatch.delenv('MMBAM_CHECKPOINT')  # the probe's own file has it all
    set_test(cfg, str(tmp_path / 'train/epoch_1.pth'))
    tester = build_runner(cfg)
    top1 = tester.test()['accuracy/top1']
    hits = []
    for batch in tester.test_dataloader:
        labels = [int(sample.gt_label) for sample in batch['data_samples']]
        images = tester.model.data_preprocessor(batch)['inputs']
        with torch.no_grad():
            scores = runner.model.eval()(images)
        hits += (scores.argmax(1) == torch.tensor(labels)).tolist()
    assert len(hits) == 6 and sum(hits) > 0
    assert top1 == last == pytest.approx(100 * sum(hits) / 6)


def test_the_vit_probe_sees_normalised_cls_and_mean_patch_token():
    cfg = Config.fromfile(BENCHMARKS / 'linear/vit-s16_linear_100e.py')
    model = MODELS.build(dict(cfg.model, _scope_='mmpretrain')).train()
    seen = {}
    model.backbone.register_forward_hook(lambda m, i, out: seen.update(tokens=out[-1]))
    images = torch.randn(4, 3, SIZE, SIZE)
    (got,) = model.extract_feat(images)
    tokens = seen['tokens']
    assert tokens.shape == (4, 1 + (SIZE // 16) ** 2, 384)
    joined = torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], 1)
    deviation = joined.var(0, unbiased=False).add(1e-6).sqrt()
    expected = (joined - joined.mean(0)) / deviation
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    assert not list(model.neck.parameters())


@pytest.mark.parametrize('network', ['vit-s16', 'vit-b16', 'r50', 'caformer-m36'])
def test_backbones_are_those_of_pretraining(network):
    def backbone(path: Path) -> dict:
        return dict(Config.fromfile(path).model.backbone, _scope_='mmpretrain')

    def outline(cfg: dict) -> tuple[dict, list[int]]:
        """Of a ViT in full size, without the memory for it."""
        with torch.device('meta'):
            vit = MODELS.build(cfg)
        shapes = {name: value.shape for name, value in vit.state_dict().items()}
        return shapes, [layer.attn.num_heads for layer in vit.layers]

    expected = backbone(ROOT / f'configs/bam/{network}_300e.py')
    configs = [c for c in CONFIGS if Path(c).name.startswith(network)]
    assert configs
    for config in configs:
        got = backbone(BENCHMARKS / config)
        if network.startswith('vit'):
            assert outline(got) == outline(expected), config
        else:
            assert got == expected, config


@pytest.mark.parametrize('protocol', PROTOCOLS)
def test_a_checkpoint_of_another_network_is_refused(
    protocol, data, tmp_path, monkeypatch
):
    config = next(c for c in CONFIGS if c.startswith(f'{protocol}/vit'))
    cfg = load_config(str(BENCHMARKS / config), work_dir=str(tmp_path))
    shrink(cfg, data)
    torch.save({'backbone.conv1.weight': torch.zeros(1)}, tmp_path / 'other.pth')
    monkeypatch.setenv('MMBAM_CHECKPOINT', str(tmp_path / 'other.pth'))
    with pytest.raises(ValueError, match='other.pth.*missing: cls_token.*left over'):
        build_runner(cfg).train()


def test_a_missing_list_of_the_split_is_named(data, tmp_path):
    config = BENCHMARKS / 'semi/vit-s16_semi-1percent_100e.py'
    cfg = load_config(str(config), work_dir=str(tmp_path))
    shrink(cfg, data)
    cfg.train_dataloader.dataset.ann_file = 'meta/gone.txt'
    with pytest.raises(FileNotFoundError, match='meta/gone.txt'):
        build_runner(cfg).train()


def test_cifar_reaches_the_network_in_the_colors_of_its_file(data):
    cfg = Config.fromfile(BENCHMARKS / 'transfer/vit-b16_transfer-cifar10_100e.py')
    cfg.test_dataloader.dataset.data_root = str(data / 'cifar10')
    cfg.test_dataloader.dataset.pipeline[2:-1] = []  # as it is, without resizing
    dataset = DATASETS.build(cfg.test_dataloader.dataset)
    item = dataset[0]
    preprocessor = MODELS.build(dict(cfg.data_preprocessor, _scope_='mmpretrain'))
    batch = dict(inputs=item['inputs'][None], data_samples=[item['data_samples']])
    seen = preprocessor(batch)['inputs'][0]
    entry = pickle.loads((data / 'cifar10/cifar-10-batches-py/test_batch').read_bytes())
    rgb = torch.from_numpy(entry['data'][0].reshape(3, 32, 32)).float()
    mean = torch.tensor(cfg.data_preprocessor.mean).view(3, 1, 1)
    std = torch.tensor(cfg.data_preprocessor.std).view(3, 1, 1)
    torch.testing.assert_close(seen, (rgb - mean) / std)


def test_recipes_say_what_the_paper_says():
    def read(name: str) -> Config:
        (path,) = BENCHMARKS.glob(name)
        return Config.fromfile(path)

    for name, base_lr in (('vit-b16', 0.002), ('caformer-m36', 0.002), ('r50', 0.3)):
        probe = read(f'linear/{name}_*.py')
        assert probe.optim_wrapper.optimizer == dict(
            type='SGD', lr=base_lr * 1024 / 256, momentum=0.9, weight_decay=0.0
        )
        assert probe.train_cfg.max_epochs == probe.param_scheduler[-1].end == 100
    deit = read('finetune/vit-b16_*.py')
    assert deit.optim_wrapper.optimizer == dict(
        type='AdamW', lr=5e-4 * 1024 / 512, weight_decay=0.05
    )
    assert [s.end for s in deit.param_scheduler] == [5, 150]
    for config in CONFIGS:
        cfg = Config.fromfile(BENCHMARKS / config)
        whole = cfg.train_dataloader.batch_size * 8
        assert cfg.auto_scale_lr.base_batch_size == whole
        assert whole == (512 if config.startswith('semi') else 1024)
        assert cfg.model.head.num_classes == cfg.data_preprocessor.num_classes
        assert cfg.val_dataloader == cfg.test_dataloader
        assert cfg.custom_hooks == [dict(type='mmbam.PretrainedBackboneHook')]
        assert cfg.train_cfg.max_epochs == cfg.param_scheduler[-1].end
    for percent in (1, 10):
        semi = read(f'semi/vit-s16_semi-{percent}percent_*.py')
        assert semi.optim_wrapper.optimizer.lr == 5e-5
        assert semi.param_scheduler[0].end == 5 and semi.train_cfg.max_epochs == 100
        assert semi.train_dataloader.dataset.ann_file.endswith(f'_{percent}percent.txt')
        assert semi.model.backbone.drop_path_rate == 0.1
        assert [a.alpha for a in semi.model.train_cfg.augments] == [0.8, 1.0]
        steps = {step.type: step for step in semi.train_dataloader.dataset.pipeline}
        assert steps['RandomErasing'].erase_prob == 0.25


@pytest.mark.parametrize(
    'name, decay, erasing, drop_path, mixup, cutmix',
    [  # as MoCo v3 prints them
        ('cifar10', 0.1, 0, 0.1, 0.8, 1),
        ('cifar100', 0.1, 0, 0.1, 0.5, 1),
        ('flowers', 0.3, 0.25, 0.1, 0, 0),
        ('pets', 0.1, 0, 0, 0.8, 0),
    ],
)
def test_transfer_regularizes_each_set_as_moco_v3(
    name, decay, erasing, drop_path, mixup, cutmix
):
    cfg = Config.fromfile(BENCHMARKS / f'transfer/vit-b16_transfer-{name}_100e.py')
    steps = {step.type: step for step in cfg.train_dataloader.dataset.pipeline}
    probability = steps['RandomErasing'].erase_prob if 'RandomErasing' in steps else 0
    # 3e-4 per 512 images, 8 x 128 of them, times the paper's 0.1.
    optimizer = cfg.optim_wrapper.optimizer
    assert optimizer.lr == pytest.approx(3e-4 * 8 * 128 / 512 * 0.1)
    assert (optimizer.weight_decay, probability) == (decay, erasing)
    assert [s.end for s in cfg.param_scheduler] == [3, 100]
    floor = cfg.param_scheduler[-1].eta_min_ratio * optimizer.lr
    assert floor == pytest.approx(1e-5 * 0.1)
    assert cfg.train_dataloader.sampler.type == 'DefaultSampler'  # no repetition

    # What the model makes of it, on a network without weights.
    with torch.device('meta'):
        model = MODELS.build(
            dict(
                cfg.model,
                data_preprocessor=dict(cfg.data_preprocessor),
                _scope_='mmpretrain',
            )
        )
    drops = [layer.attn.out_drop.drop_prob for layer in model.backbone.layers]
    assert max(drops) == pytest.approx(drop_path)
    augments = model.data_preprocessor.batch_augments
    found = {type(a).__name__: a.alpha for a in augments.augments} if augments else {}
    wanted = dict(Mixup=mixup, CutMix=cutmix)
    assert found == {key: alpha for key, alpha in wanted.items() if alpha}
    assert model.head.loss_module.label_smooth_val == 0.1


def test_runs_have_folders_of_their_own():
    stems = [path.stem for path in (ROOT / 'configs').rglob('*.py')]
    assert all(stems.count(Path(config).stem) == 1 for config in CONFIGS)


@pytest.mark.parametrize('name', ['tensorboard', 'wandb'])
def test_curves_may_go_elsewhere_too(name):
    cfg = Config.fromfile(ROOT / f'configs/_base_/visualizers/{name}.py')
    kinds = [backend.type for backend in cfg.visualizer.vis_backends]
    assert kinds == ['LocalVisBackend', f'{name.capitalize()}VisBackend']
    assert all(VISBACKENDS.get(kind) for kind in kinds)
