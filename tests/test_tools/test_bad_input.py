"""Whatever a user gets wrong, on whatever command: one sentence that names it."""

from __future__ import annotations

import shutil
import warnings

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmpretrain.registry import MODELS

from mmbam.checkpoints import load_training_checkpoint
from tests.helpers.folders import make_config, make_folders
from tests.helpers.run import run_tool
from tests.test_tools.test_train_and_test import CONFIG

HOOK = """
custom_hooks = [dict(type='mmbam.PretrainedBackboneHook', checkpoint='{checkpoint}')]
"""


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    """Good data, a good config and checkpoint, and a bad one of each kind."""
    root = tmp_path_factory.mktemp('bad')
    make_folders(root)
    _, weights, _ = make_config(root)
    (root / 'empty').mkdir()
    (root / 'texts' / 'a').mkdir(parents=True)
    (root / 'texts' / 'a' / 'note.txt').write_text('no image')
    shutil.copytree(root / 'test', root / 'broken')
    (root / 'broken' / 'class0' / '000.png').write_bytes(b'no image')
    make_folders(root / 'one', train=1, test=1)
    (root / 'damaged.pth').write_bytes(b'no checkpoint')
    half = load_training_checkpoint(weights)
    half['state_dict'].popitem()
    torch.save(half, root / 'half.pth')
    config = CONFIG.replace('{images}', f'{root}/train')
    config = config.replace('num_classes=2', 'num_classes=3')
    (root / 'train.py').write_text(config)
    (root / 'pretrained.py').write_text(
        config + HOOK.replace('{checkpoint}', f'{root}/half.pth')
    )
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        state = MODELS.build(Config.fromfile(root / 'train.py').model).state_dict()
    torch.save(dict(state_dict=state), root / 'model.pth')
    state.pop('head.fc.bias')
    torch.save(dict(state_dict=state), root / 'half_model.pth')
    return root


def said(root, command: str) -> str:
    """The one sentence; ``$`` stands for the folder, ``^`` for config and weights."""
    command = command.replace('^', '$/config.py $/weights.pth')
    tool, *args = command.replace('$', str(root)).split()
    if tool in ('train.py', 'test.py'):
        args += ['--work-dir', root / 'work_dir']
    elif tool in ('knn.py', 'cluster.py', 'transfer.py', 'draw_crops.py'):
        args[2:2] = ['--num-workers', 0]
    with warnings.catch_warnings():  # that runs of one second share a name
        warnings.simplefilter('ignore')
        _, error = run_tool(tool, *args)
    assert isinstance(error, str), 'it must fail with a sentence'
    assert '\n' not in error and error.startswith(tool.removesuffix('.py'))
    return error


TRAIN = 'train.py $/train.py --cfg-options train_dataloader.dataset'
TEST = 'test.py $/train.py $/model.pth --cfg-options test_dataloader.dataset'


@pytest.mark.parametrize(
    'command',
    [
        'knn.py ^ --train $/empty',
        'knn.py ^ --test $/empty',
        'cluster.py ^ --test $/empty',
        'transfer.py ^ mine=$/empty',
        'make_split.py $/empty out.txt --fraction=.5',
        'draw_attention.py ^ $/empty',
        'draw_similarities.py ^ --images $/empty',
        'draw_crops.py ^ --images $/empty',
        f'{TRAIN}.data_prefix=$/empty',
        f'{TEST}.data_prefix=$/empty',
        'draw_entropies.py $/empty',
        *(
            f'transfer.py ^ {name}=$/empty'
            for name in ('food101', 'cifar10', 'cars', 'aircraft', 'pets', 'flowers')
        ),
    ],
)
def test_an_empty_folder(root, command):
    assert f'{root}/empty' in said(root, command)
    missing = command.replace('$/empty', '$/gone')
    assert f'{root}/gone' in said(root, missing)


@pytest.mark.parametrize(
    'command',
    [
        'knn.py ^ --train $/texts',
        'cluster.py ^ --test $/texts',
        'make_split.py $/texts out.txt --fraction=.5',
        'draw_similarities.py ^ --images $/texts',
        'draw_crops.py ^ --images $/texts',
        f'{TRAIN}.data_prefix=$/texts',
    ],
)
def test_a_class_without_images(root, command):
    assert f'{root}/texts' in said(root, command)


@pytest.mark.parametrize('workers', [0, 1])
@pytest.mark.parametrize(
    'command', ['knn.py ^ --test $/broken', 'cluster.py ^ --test $/broken']
)
def test_an_image_that_cannot_be_read(root, command, workers):
    sentence = said(root, f'{command} --num-workers {workers}')
    assert '1 image cannot be read and max_errors=0 allows 0' in sentence
    image = f'{root}/broken/class0/000.png'
    assert sentence.endswith(f': {image} (ValueError: this is no image)')


def test_a_class_with_one_image(root, capsys):
    for command in (
        'transfer.py ^ mine=$/one --size=16',
        'make_split.py $/one/train out.txt --fraction=.5',
    ):
        assert 'class 0 has 1' in said(root, command)


@pytest.mark.parametrize(
    'command',
    [
        'knn.py $/config.py $/{}',
        'cluster.py $/config.py $/{}',
        'transfer.py $/config.py $/{} mine=$ --size=16',
        'draw_attention.py $/config.py $/{} $/train',
        'draw_similarities.py $/config.py $/{}',
        'draw_crops.py $/config.py $/{}',
        'train.py $/pretrained.py --cfg-options custom_hooks.0.checkpoint=$/{}',
        'train.py $/train.py --resume $/{}',
        'test.py $/train.py $/{}',
    ],
)
def test_a_wrong_checkpoint(root, command):
    assert f'{root}/gone.pth' in said(root, command.format('gone.pth'))
    sentence = said(root, command.format('damaged.pth'))
    assert f"'{root}/damaged.pth' is not a checkpoint" in sentence
    sentence = said(root, command.format('half.pth'))
    assert 'missing' in sentence and ('ln1.bias' in sentence or 'conv1' in sentence)


@pytest.mark.parametrize(
    'command',
    [
        'test.py $/train.py $/half_model.pth',
        'train.py $/train.py --resume $/half_model.pth',
    ],
)
def test_a_model_is_never_half_loaded(root, command):
    sentence = said(root, command)
    assert sentence.endswith('in the config; missing: head.fc.bias.')


@pytest.mark.parametrize(
    'command',
    [
        f'{TRAIN}.ann_file=$/gone.txt',
        f'{TEST}.ann_file=$/gone.txt',
        'knn.py ^ --cfg-options train_dataloader.dataset.ann_file=$/gone.txt',
        'draw_crops.py ^ --cfg-options train_dataloader.dataset.ann_file=$/gone.txt',
    ],
)
def test_a_missing_split_file(root, command):
    assert f"there is no '{root}/gone.txt'" in said(root, command)


@pytest.mark.parametrize(
    'command, sentence',
    [
        ('knn.py ^ --k=50', 'k=50 neighbours need at least'),
        ('knn.py ^ --k=0', 'got k=0'),
        ('knn.py ^ --fraction=0', 'fraction must be in (0, 1]'),
        ('knn.py ^ --size=0', '--size must be at least 1'),
        ('knn.py ^ --batch-size=0', 'batch_size'),
        ('knn.py ^ --num-workers=-1', 'num_workers'),
        ('knn.py $/gone.py $/weights.pth', '/gone.py'),
        ('draw_attention.py $/gone.py $/weights.pth $/train', '/gone.py'),
        ('cluster.py ^ --seed=-1', 'seed=-1'),
        ('cluster.py ^ --num-classes 2 --draws=1 --out=$/train.py/a', '/train.py/a'),
        ('draw_similarities.py ^ --seed=-1', 'Seed must be'),
        (
            'draw_crops.py ^ --images $/train --coco $/train.py --out $/a.png',
            'train.py',
        ),
        ('cluster.py ^ --num-classes 4', 'one is 4'),
        ('cluster.py ^ --draws=0', 'draws must be at least 1'),
        ('draw_attention.py ^ $/broken', '/broken/class0/000.png'),
        ('draw_crops.py ^ --images $/broken', '/broken/class0/000.png'),
        ('draw_crops.py ^', 'No transform'),
        ('train.py $/pretrained.py --cfg-options custom_hooks.0.source=x', 'source'),
        (
            'train.py $/train.py --cfg-options train_dataloader.drop_last=True '
            'train_dataloader.batch_size=99',
            'do not fill one batch of 99 in each of 1 processes',
        ),
    ],
)
def test_other_mistakes(root, command, sentence):
    assert sentence in said(root, command)


def test_a_bug_keeps_its_traceback(root, monkeypatch):
    def broken(*_, **__):
        return None.no_such_attribute

    with monkeypatch.context() as patch:
        patch.setattr('mmpretrain.models.ImageClassifier.__init__', broken)
        with pytest.raises(AttributeError, match='no_such_attribute'):
            arguments = ('--work-dir', root / 'work_dir')
            run_tool('train.py', root / 'train.py', *arguments)

    weights = root / 'weights.pth'
    monkeypatch.setattr('mmbam.evaluation.knn_accuracy', lambda *_, **__: int('x'))
    with pytest.raises(ValueError, match='invalid literal'):
        run_tool('knn.py', root / 'config.py', weights, '--num-workers', 0)
    monkeypatch.setattr('mmbam.evaluation.knn_accuracy', lambda *_, **__: open('/no'))
    with pytest.raises(FileNotFoundError, match='/no'):
        run_tool('knn.py', root / 'config.py', weights, '--num-workers', 0)
