"""A table of mistakes: each a command line and the words that its sentence must hold.

``$`` stands for the folder that :func:`make_place` fills, ``^`` for a good config and a
good checkpoint in it, ``@`` for a new folder of the row. Rows are generated, so that
every option of a command meets a wrong value.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmpretrain.registry import MODELS

import mmbam.models  # noqa: F401 (registers what the config names)
from tests.helpers.folders import make_config, make_folders
from tests.helpers.videos import make_davis

BAM = """
default_scope = 'mmpretrain'
model = dict(
    type='mmbam.BAM',
    backbone=dict(
        type='ResNet', depth=18, stem_channels=8, base_channels=8, num_stages=2,
        strides=(1, 2), dilations=(1, 1), out_indices=(1,)),
    neck=dict(
        type='mmbam.BAMNeck', in_channels=16, hid_channels=16, out_channels=8,
        act_cfg=dict(type='ReLU'), norm_cfg=dict(type='BN1d')),
    head=dict(type='mmbam.BAMHead', loss=dict(type='mmbam.BAMLoss', num_views=3)),
    teacher=dict(type='mmbam.EMATeacher', momentum=0.9),
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor', mean=[127.] * 3, std=[60.] * 3),
)
train_pipeline = [
    dict(type='mmbam.SeedBySample'),
    dict(type='mmbam.LoadImage'),
    dict(type='mmbam.MultiCrop', views=[
        dict(num=2, size=16, area=(0.5, 1.0)), dict(size=8, area=(0.2, 0.5))]),
    dict(type='PackInputs'),
]
train_dataloader = dict(
    batch_size=8, num_workers=0, drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='CustomDataset', data_root='{root}/train', pipeline=train_pipeline))
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=1)
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=0.001, weight_decay=0.04),
    clip_grad=dict(max_norm=0.3),
    paramwise_cfg=dict(flat_decay_mult=0.0))
param_scheduler = [
    dict(type='CosineAnnealingLR', by_epoch=True, begin=0, end=1,
         convert_to_iter_based=True)]
knn_pipeline = [
    dict(type='mmbam.LoadImage'), dict(type='ResizeEdge', scale=16),
    dict(type='CenterCrop', crop_size=16), dict(type='PackInputs')]
custom_hooks = [
    dict(type='mmbam.SeedByEpochHook'),
    dict(type='mmbam.KNNHook', fraction=1.0, k=3, num_workers=0,
         train_dataset=dict(type='CustomDataset', data_root='{root}/train',
                            pipeline=knn_pipeline),
         test_dataset=dict(type='CustomDataset', data_root='{root}/test',
                           pipeline=knn_pipeline)),
    dict(type='mmbam.LocalizeHook', start_epoch=0, interval=1, image_size=16,
         num_workers=0),
    dict(type='mmbam.MonitorHook', interval=1),
]
default_hooks = dict(
    logger=dict(type='LoggerHook', interval=1),
    checkpoint=dict(type='CheckpointHook', interval=1, max_keep_ckpts=1))
log_level = 'ERROR'
randomness = dict(seed=0)
auto_scale_lr = dict(base_batch_size=8)
"""
FILES = {
    'syntax.py': 'model = dict(\n',
    'name.py': 'model = dict(type=NoSuchName)\n',
    'division.py': 'lr = 1 / 0\n',
    'absent_import.py': 'import no_such_package\nmodel = dict(type="mmbam.BAM")\n',
    'absent_from.py': 'from no_such_package import Net\nmodel = dict(type=Net)\n',
    'absent_custom.py': "custom_imports = dict(imports=['no_such_package'])\n",
    'absent_base.py': "_base_ = './no_such_base.py'\n",
    'no_model.py': 'train_cfg = dict(max_epochs=1)\n',
    'no_backbone.py': "model = dict(type='mmbam.BAM')\n",
    'empty.py': '',
    'config.txt': 'model = 1\n',
    'list.json': '[1, 2]',
    'half.json': '{"a": ',
    'wrong.yml': 'a: [1, 2\n',
    'duplicate.py': "_base_ = ['./bam.py', './bam.py']\n",
    'binary.py': b'\x00\xff\xfe\x80',
}


def make_place(root: Path) -> None:
    """Fill a folder with good data, configs and checkpoints, and with bad ones."""
    make_folders(root)
    make_config(root)
    make_davis(root / 'davis', lengths=(4,))
    make_folders(root / 'other', num_classes=2)
    for split in ('train', 'test'):
        (root / 'other' / split / 'class0').rename(root / 'other' / split / 'cat')
    (root / 'empty').mkdir()
    (root / 'texts' / 'a').mkdir(parents=True)
    (root / 'texts' / 'a' / 'note.txt').write_text('no image')
    (root / 'broken' / 'a').mkdir(parents=True)
    (root / 'broken' / 'a' / 'image.png').write_bytes(b'no image')
    make_folders(root / 'single', num_classes=1)
    (root / 'damaged.pth').write_bytes(b'no checkpoint')
    (root / 'nothing.pth').write_bytes(b'')
    (root / 'file').write_text('a file')
    (root / 'coco.json').write_text('{"images": [], "annotations": []}')
    for name, content in FILES.items():
        content = content if isinstance(content, bytes) else content.encode()
        (root / name).write_bytes(content)
    (root / 'bam.py').write_text(BAM.replace('{root}', str(root)))
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        models = {
            'bam.pth': {},
            'wide.pth': {'model.neck.out_channels': 12},
            'alone.pth': {'model.teacher': None},
            'deeper.pth': {'model.backbone.depth': 34},
        }
        for name, change in models.items():
            cfg = Config.fromfile(root / 'bam.py')
            cfg.merge_from_dict(change)
            state = MODELS.build(cfg.model).state_dict()
            torch.save(dict(state_dict=state, meta=dict(epoch=0, iter=0)), root / name)
    torch.save(dict(state_dict={}), root / 'no_weights.pth')
    torch.save([1, 2], root / 'list.pth')


def table() -> list[tuple[str, str]]:
    """Return all mistakes as (command, words of the sentence)."""
    rows = [
        *numbers(), *paths(), *types(), *keys(), *values(), *config_files(),
        *checkpoints(), *outputs(), *others(),
    ]  # fmt: skip
    return list(dict(rows).items())  # a few are made twice


def numbers() -> Iterator[tuple[str, str]]:
    """Every number on a command line, out of its range and as a word."""
    davis = 'video ^ --root $/davis --out @/v'
    others = cycle(('-3', 'ten', '1.5'))
    positive = {  # integers of at least 1
        'knn ^': ('k', 'size', 'batch-size'),
        'cluster ^': ('draws', 'num-classes', 'size', 'batch-size'),
        'linear ^': ('epochs', 'size', 'batch-size', 'devices'),
        'transfer ^ mine=$': ('size', 'batch-size'),
        'draw attention ^ $/train --out @/a.png': ('num', 'size'),
        'draw crops $/bam.py $/bam.pth --out @/c.png': ('num', 'size'),
        'draw similarities $/bam.py $/bam.pth --out @/s.png': ('num', 'batch-size'),
        davis: ('k', 'last', 'size'),
        'split $/train @/s.txt': ('per-class',),
        'subset $/coco.json @/c.json': ('images',),
        'world @/w': (
            'num-classes', 'patch-size', 'scene-size', 'objects', 'frames'
        ),
        'compare $ --out @/c --epochs 1': (
            'size', 'batch-size', 'head-width', 'local-views', 'evaluations'
        ),
        'compare $ --out @/c': ('epochs',),
        'demo --out @/d': ('epochs',),
        'chain --out @/d': ('epochs', 'detection-epochs', 'segmentation-iters'),
    }  # fmt: skip
    for command, options in positive.items():
        # 0 is the border; what lies behind it, and argparse, refuse all options alike.
        for option, value in product(options, ('0', next(others))):
            yield f'{command} --{option}={value}', option.replace('-', '[-_]')
    not_negative = {
        'knn ^': ('num-workers',),
        'cluster ^': ('seed',),
        'draw similarities $/bam.py $/bam.pth --out @/s.png': (
            'seed', 'num-workers'
        ),
        davis: ('radius',),
        'split $/train @/s.txt --fraction=.5': ('seed',),
        'world @/w': ('seed',),
        'compare $ --out @/c --epochs 1': ('workers', 'seeds'),
        'demo --out @/d': ('seed',),
    }  # fmt: skip
    for command, options in not_negative.items():
        for option in options:
            yield f'{command} --{option}=-1', option.replace('-', '[-_]')
    real = {
        'knn ^': ('temperature', 'fraction'),
        'linear ^': ('base-lr',),
        'transfer ^ mine=$': ('val-fraction',),
        'draw crops $/bam.py $/bam.pth --out @/c.png': ('threshold',),
        'draw similarities $/bam.py $/bam.pth --out @/s.png': ('tau',),
        davis: ('temperature',),
        'split $/train @/s.txt': ('fraction',),
        'compare $ --out @/c --epochs 1 --batch-size 8': ('lr',),
        'compare $ --out @/c --batch-size 8': ('minutes',),
        'world @/w': ('background-blur',),
    }
    for command, options in real.items():
        for option, value in product(options, ('nan', '-1', 'inf')):
            yield f'{command} --{option}={value}', option.replace('-', '[-_]')
    yield 'knn ^ --temperature=hot', 'temperature'


def paths() -> Iterator[tuple[str, str]]:
    """Every path on a command line: absent, empty, of another kind."""
    folders = (
        'knn ^ --train {}', 'knn ^ --test {}', 'cluster ^ --test {}',
        'transfer ^ mine={}', 'split {} @/s.txt --fraction=.5',
        'draw attention ^ {} --out @/a', 'draw crops ^ --images {} --out @/a.png',
        'draw similarities $/bam.py $/bam.pth --images {} --out @/a.png',
        'video ^ --root {} --out @/v', 'compare {} --epochs 1 --out @/c',
        'compare $ --labeled {} --epochs 1 --out @/c',
        'train $/bam.py --cfg-options train_dataloader.dataset.data_root={}',
        'train $/bam.py --cfg-options custom_hooks.1.train_dataset.data_root={}',
    )  # fmt: skip
    for command in folders:
        for place in ('gone', 'empty', 'file'):
            if place == 'file' and 'draw_attention' in command:
                continue  # an image may have any name: see below
            yield command.format(f'$/{place}'), f'/{place}'
    files = (
        'knn $/config.py {}', 'cluster $/config.py {}',
        'draw attention $/config.py {} $/train --out @/a',
        'draw crops $/config.py {} --images $/train --out @/a.png',
        'video $/config.py {} --root $/davis --out @/v',
        'convert {} @/o.pth --to timm',
        'train $/bam.py --resume {}',
        'train $/bam.py --cfg-options load_from={}',
        'test $/bam.py {} --cfg-options test_dataloader.batch_size=1 '
        'test_cfg.fp16=False',
    )  # fmt: skip
    for command in files:
        places = ['gone.pth', 'damaged.pth']
        if command.split()[0] in ('knn', 'convert', 'train', 'test'):
            places += ['nothing.pth', 'empty', 'list.pth']  # one reader for all others
        for place in places:
            culprit = f'/{place}'
            if command.startswith('test ') and place not in ('gone.pth', 'empty'):
                culprit = 'test_dataloader'
            yield command.format(f'$/{place}'), culprit
    for place in ('gone', 'empty', 'file'):
        yield f'draw entropies $/{place} --out @/e.png', f'/{place}'
        yield f'draw clustering a=$/{place} --out @/e.png', f'/{place}'
        yield f'subset $/{place} @/c.json', f'/{place}'
        yield f'compare $ --backbone $/{place} --epochs 1 --out @/c', f'/{place}'
        yield f'compare $ --methods $/{place} --epochs 1 --out @/c', f'/{place}'
    yield 'draw attention ^ $/file --out @/a', '/file'


# Each type in the config, by its place, and a misspelling of it.
TYPES = {
    'model': 'mmbam.BAN',
    'model.backbone': 'ResNot',
    'model.neck': 'mmbam.BAMNek',
    'model.head': 'BAMHead',
    'model.head.loss': 'mmbam.BAMLos',
    'model.teacher': 'mmbam.EMATeecher',
    'model.neck.act_cfg': 'RELU6x',
    'model.neck.norm_cfg': 'BN1dd',
    'model.data_preprocessor': 'SelfSupPreprocessor',
    'train_dataloader.dataset': 'CustomDatast',
    'train_dataloader.sampler': 'DefaultSampleer',
    'train_dataloader.collate_fn': 'default_colate',
    'train_pipeline.0': 'mmbam.SeedBySampel',
    'train_dataloader.dataset.pipeline.1': 'mmbam.LoadImag',
    'train_dataloader.dataset.pipeline.3': 'PackInput',
    'train_cfg': 'EpochBasedTrainLop',
    'optim_wrapper': 'OptimWraper',
    'optim_wrapper.optimizer': 'AdamX',
    'param_scheduler.0': 'CosineAnealingLR',
    'custom_hooks.0': 'mmbam.SeedByEpochHok',
    'custom_hooks.1': 'KNNHoook',
    'custom_hooks.1.train_dataset': 'CustomDatasets',
    'custom_hooks.1.test_dataset.pipeline.1': 'ResizeEdges',
    'default_hooks.logger': 'LoggerHok',
    'default_hooks.checkpoint': 'CheckpointHok',
}


def types() -> Iterator[tuple[str, str]]:
    """Every type of a config, misspelled."""
    for place, name in TYPES.items():
        if place.startswith('train_pipeline'):
            continue  # a variable that nothing reads after the file is parsed
        yield f'train $/bam.py --cfg-options {place}.type={name}', name
    yield 'train $/bam.py --cfg-options optim_wrapper.constructor=NoSuch', 'NoSuch'
    yield 'train $/bam.py --cfg-options default_scope=mmpretrian', 'mmpretrian'
    yield 'train $/bam.py --cfg-options runner_type=FlexRunner', 'FlexRunner'
    yield (
        'train $/bam.py --cfg-options visualizer.type=UniversalVisualiser',
        'UniversalVisualiser',
    )
    yield 'knn ^ --cfg-options model.backbone.type=VisionTransformr', 'Transformr'
    yield 'video ^ --cfg-options model.backbone.type=ViTT --root $/davis', 'ViTT'
    yield (
        'cluster ^ --cfg-options data_preprocessor.type=NoPreprocessor',
        'NoPreprocessor',
    )
    yield (
        'knn ^ --cfg-options val_dataloader.dataset.type=CustomDatset',
        'CustomDatset',
    )


SCALARS = ('load_form', 'resumes', 'log_levels', 'default_scopes', 'work_dirs')


def keys() -> Iterator[tuple[str, str]]:
    """Keys that nothing reads."""
    top = (
        'optim_wraper', 'optim_wrappers', 'param_schedular', 'param_schedulers',
        'train_dataloder', 'train_data_loader', 'custom_hook', 'default_hook', 'modle',
        'load_form', 'resumes', 'randomnes', 'train_cgf', 'auto_scale_lrs', 'env_cgf',
        'log_levels', 'default_scopes', 'visualiser', 'data_preprocesor',
        'val_dataloaders', 'test_evaluators', 'work_dirs', 'log_procesor',
    )  # fmt: skip
    for key in top:
        value = '=1' if key in SCALARS else '.x=1'
        yield f'train $/bam.py --cfg-options {key}{value}', key
    nested = (
        'optim_wrapper.optimiser.lr', 'optim_wrapper.clip_grads.max_norm',
        'optim_wrapper.paramwise.a', 'optim_wrapper.optimizer.learning_rate',
        'train_dataloader.batchsize', 'train_dataloader.workers',
        'train_dataloader.dataset.pipelines', 'train_dataloader.sampler.shufle',
        'train_cfg.max_epoch', 'train_cfg.epochs', 'param_scheduler.0.ends',
        'param_scheduler.0.T_maxx', 'model.backbones', 'model.neck.hidden_channels',
        'model.head.loss.tau_c', 'model.teacher.momentun', 'custom_hooks.1.intervals',
        'custom_hooks.2.threshhold', 'default_hooks.checkpoint.intervall',
        'default_hooks.logger.intervall', 'randomness.sed',
        'train_dataloader.dataset.pipeline.2.view',
        'optim_wrapper.clip_grad.maxnorm', 'model.data_preprocessor.means',
        'custom_hooks.3.on_colapse',
    )  # fmt: skip
    for key in nested:
        last = key.rpartition('.')[2]
        culprit = dict(lr='optimiser', max_norm='clip_grads', a='paramwise')
        yield f'train $/bam.py --cfg-options {key}=1', culprit.get(last, last)
    yield 'train $/bam.py --cfg-options custom_hooks.9.interval=1', 'custom_hooks'
    yield 'train $/bam.py --cfg-options custom_hooks.x.interval=1', 'custom_hooks'
    yield 'train $/bam.py --cfg-options log_level.x=1', 'log_level'
    yield 'train $/bam.py --cfg-options nothing', 'nothing'
    yield 'knn ^ --cfg-options model.backbone.archs=1', 'archs'


def values() -> Iterator[tuple[str, str]]:
    """Values of a config outside of what is allowed."""
    wrong = {
        'optim_wrapper.optimizer.lr': ('-0.1', 'nan', 'inf', 'fast', 'None'),
        'optim_wrapper.optimizer.weight_decay': ('-1', 'nan', 'x'),
        'optim_wrapper.clip_grad.max_norm': ('-1', 'nan', '0', 'x'),
        'optim_wrapper.accumulative_counts': ('0', '-1', 'x'),
        'optim_wrapper.optimizer.betas': ('[0.9,2]', '[0.9]', 'x'),
        'train_dataloader.batch_size': ('0', '-4', 'x', '2.5', 'nan', '1', '999'),
        'train_dataloader.num_workers': ('-1', 'x', '1.5'),
        'train_cfg.max_epochs': ('ten', '0', '-1', '1.5', 'nan', 'None'),
        'train_cfg.val_interval': ('0', 'x'),
        'param_scheduler.0.end': ('0', '-1', 'x'),
        'param_scheduler.0.begin': ('-1', 'x', '5'),
        'param_scheduler.0.by_epoch': ('maybe',),
        'model.head.loss.tau': ('0', '-0.1', 'nan', 'inf', 'x'),
        'model.head.loss.tau_b': ('0', '-0.1', 'nan', 'x'),
        'model.head.loss.num_views': ('1', '9', 'x', '2.5'),
        'model.head.loss.sinkhorn_iters': ('0', 'x'),
        'model.head.loss.top_k': ('-1', 'x'),
        'model.head.loss.positive_mask': ('maybe',),
        'model.head.loss.balance_rows': ('some',),
        'model.neck.in_channels': ('17', '0', '-1', 'x'),
        'model.neck.out_channels': ('0', '-1', 'x'),
        'model.neck.num_layers': ('0', 'x'),
        'model.teacher.momentum': ('1.5', '-1', 'nan', 'x'),
        'model.teacher.end_momentum': ('2', 'x'),
        'model.backbone.depth': ('19', 'x'),
        'custom_hooks.1.k': ('0', '999', 'x'),
        'custom_hooks.1.temperature': ('0', 'nan', 'x'),
        'custom_hooks.1.fraction': ('0', '2', 'nan'),
        'custom_hooks.1.interval': ('0', 'x'),
        'custom_hooks.1.network': ('both',),
        'custom_hooks.1.batch_size': ('0', '-1'),
        'custom_hooks.2.interval': ('0', 'x'),
        'custom_hooks.2.threshold': ('2', 'nan', 'x'),
        'custom_hooks.3.interval': ('0', 'x'),
        'custom_hooks.3.on_collapse': ('cry',),
        'default_hooks.checkpoint.interval': ('0', 'x'),
        'default_hooks.logger.interval': ('0', 'x'),
        'randomness.seed': ('-1', 'x', '1.5'),
        'train_dataloader.dataset.pipeline.2.views.0.size': ('0', 'x'),
        'train_dataloader.dataset.pipeline.2.views.0.area': ('[0,2]', '[1]', 'nan'),
        'train_dataloader.dataset.pipeline.2.views.0.num': ('0', '5', 'x'),
        'train_dataloader.dataset.pipeline.2.views.0.flip': ('2', 'nan', 'x'),
        'train_dataloader.dataset.pipeline.2.alpha': ('0', '-1', 'nan', 'x'),
        'log_level': ('LOUD',),
        'model': ('None', '3'),
        'train_dataloader': ('None', '3'),
        'train_cfg': ('None', '3'),
        'optim_wrapper': ('None', '3'),
        'custom_hooks': ('3',),
        'default_hooks': ('3',),
        'load_from': ('3',),
        'auto_scale_lr.base_batch_size': ('0', 'x'),
    }
    for place, texts in wrong.items():
        last = place.rpartition('.')[2]
        culprit = {'num': '(num|views)', 'k': r'\bk\b'}.get(last, last)
        for text in texts:
            options = f'--cfg-options {place}={text}'
            if last == 'base_batch_size':
                options += ' --auto-scale-lr'
            words = culprit
            if place.endswith('batch_size') and text == '1':
                words = 'at least 2 images'
            yield f'train $/bam.py {options}', words


def config_files() -> Iterator[tuple[str, str]]:
    """Config files that cannot be read, or lack what a command needs."""
    culprits = {
        'absent_import.py': 'no_such_package', 'absent_from.py': 'no_such_package',
        'absent_custom.py': 'no_such_package', 'absent_base.py': 'no_such_base',
        'name.py': 'NoSuchName',
    }  # fmt: skip
    for name in (*FILES, 'gone.py', 'empty'):
        culprit = culprits.get(name, f'/{name}')
        yield f'train $/{name}', culprit
        yield f'knn $/{name} $/weights.pth', culprit
        if name in ('syntax.py', 'absent_import.py', 'gone.py', 'binary.py', 'empty'):
            yield f'test $/{name} $/weights.pth', culprit
            yield f'video $/{name} $/weights.pth --root $/davis', culprit
            yield f'compare $ --methods $/{name} --epochs 1 --out @/c', culprit


def checkpoints() -> Iterator[tuple[str, str]]:
    """Checkpoints of another network."""
    for name in ('wide', 'alone', 'deeper', 'weights', 'no_weights'):
        for option in ('--resume ', '--cfg-options load_from='):
            yield f'train $/bam.py {option}$/{name}.pth', f'/{name}.pth'
    yield 'train $/bam.py --resume $/bam.pth --cfg-options model.teacher=None', 'tea'
    for name in ('bam', 'damaged'):
        yield f'knn $/config.py $/{name}.pth', f'/{name}.pth'
        yield f'video $/config.py $/{name}.pth --root $/davis', f'/{name}.pth'
    yield 'knn ^ --source teacher', 'teacher'
    yield 'convert $/weights.pth @/o --to timm --source teacher', 'teac'
    yield 'draw similarities ^ --projector --out @/s.png', 'neck'


def outputs() -> Iterator[tuple[str, str]]:
    """Outputs that cannot be written, or that would replace what is read."""
    for command in (
        'convert $/weights.pth {} --to timm',
        'split $/train {} --fraction=.5',
        'cluster ^ --num-classes 2 --draws=1 --out {}',
        'transfer ^ mine=$ --size 16 --out {}',
        'draw crops $/bam.py $/bam.pth --num 1 --out {}',
        'draw similarities $/bam.py $/bam.pth --num 4 --num-workers 0 --out {}',
    ):
        yield command.format('$/file/out.png'), '/file'
        yield command.format('$/empty'), '/empty'
    yield 'convert $/weights.pth $/weights.pth --to timm', '/weights.pth'
    yield 'convert $/bam.pth $/train/../bam.pth --to timm', '/bam.pth'
    yield 'subset $/coco.json $/coco.json', '/coco.json'
    yield 'split $/train @/s.txt --rest @/s.txt --fraction=.5', '--rest'
    yield 'cluster ^ --out $/weights.pth', '/weights.pth'
    yield 'cluster ^ --out $/config.py', '/config.py'
    yield 'transfer ^ mine=$ --out $/weights.pth', '/weights.pth'
    yield 'video ^ --root $/davis --out $/file', '/file'
    yield 'train $/bam.py --work-dir $/file', '/file'
    yield 'world $/file', '/file'
    yield 'world $', 'made world'
    yield 'demo --out $/file', '/file'
    yield 'compare $ --epochs 1 --batch-size 8 --out $/file', '/file'
    yield 'test $/bam.py $/bam.pth --out @/o.txt', 'test_dataloader'


def others() -> Iterator[tuple[str, str]]:
    """Data that do not belong together, and options that exclude each other."""
    yield 'knn ^ --test $/other/test', 'class'
    yield 'linear ^ --test $/other/test', 'class'
    yield 'linear ^ --train $/train --test $/train', '/train'
    yield 'train mmbam::bam/gone.py', 'gone.py'
    yield 'knn nobody::a/b.py $/weights.pth', 'nobody'
    yield 'train $/bam.py --devices two', 'devices'
    yield 'knn ^ --train $/other/train', 'class'
    yield 'knn ^ --train $/train --test $/train', '/train'
    yield 'knn ^ --train $/test', '/test'
    yield 'knn ^ --train $/train --test $/test/../train', '/train'
    yield 'cluster ^ --test $/single/test', '2 classes'
    yield 'knn ^ --test $/texts', '/texts'
    yield 'cluster ^ --test $/broken', '/broken'
    yield 'knn ^ --k 99', '99'
    yield 'transfer ^ $/train', 'NAME=ROOT'
    yield 'transfer ^ mine=', 'mine'
    yield 'transfer ^ =$', 'NAME=ROOT'
    yield 'draw clustering $/train', 'NAME=JSON'
    yield 'video ^ --root $/davis --split gone', 'gone'
    yield 'video ^ --root $/davis --last 2 2', '2, 2'
    yield 'split $/train @/s.txt', '--per-class'
    yield 'split $/train @/s.txt --fraction .1 --per-class 2', '--per-class'
    yield 'split $/train @/s.txt --per-class 99', '99'
    yield 'compare $ --out @/c', '--epochs'
    yield 'compare $ --epochs 1 --minutes 1 --out @/c', '--minutes'
    yield 'compare $ --epochs 1 --methods bum --out @/c', 'bum'
    yield 'compare $ --epochs 1 --methods bam bam --out @/c', 'bam'
    yield 'compare $ --epochs 1 --backbone renset --out @/c', 'renset'
    yield 'compare $ --epochs 1 --set bum.lr=1 --out @/c', 'bum'
    yield 'compare $ --epochs 1 --batch-size 999 --out @/c', '999'
    yield 'compare $ --epochs 1 --batch-size 8 --seeds 1 1 --out @/c', 'seed'
    yield 'knn', 'config'
    yield 'knn ^ --sorce student', '--sorce'
    yield 'knn ^ --source both', 'both'
    yield 'train', 'config'
    yield 'train $/bam.py --launcher ssh', 'ssh'
    yield 'train $/bam.py --launcher pytorch', 'pytorch'
    yield 'convert $/weights.pth @/o.pth --to keras', 'keras'
    yield 'world @/w --num-classes 99', '99'
    yield 'world @/w --patches 3', '--patches'
    yield 'world @/w --patches 3 3', 'patches'
