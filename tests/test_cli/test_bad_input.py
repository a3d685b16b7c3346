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
from tests.helpers.run import run_verb
from tests.test_cli.test_train_and_test import CONFIG

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
    if tool in ('train', 'test'):
        args += ['--work-dir', root / 'work_dir']
    elif tool in ('knn', 'cluster', 'transfer') or args[0] == 'crops':
        first = int(args[0] == 'crops')
        args[first:first] = ['--num-workers', 0]
    with warnings.catch_warnings():  # that runs of one second share a name
        warnings.simplefilter('ignore')
        _, error = run_verb(tool, *args)
    assert isinstance(error, str), 'it must fail with a sentence'
    assert '\n' not in error and error.startswith(f'mmbam {tool}')
    return error


TRAIN = 'train $/train.py --cfg-options train_dataloader.dataset'
TEST = 'test $/train.py $/model.pth --cfg-options test_dataloader.dataset'


@pytest.mark.parametrize(
    'command',
    [
        'knn ^ --train $/empty',
        'knn ^ --test $/empty',
        'cluster ^ --test $/empty',
        'transfer ^ mine=$/empty',
        'split $/empty out.txt --fraction=.5',
        'draw attention ^ $/empty',
        'draw similarities ^ --images $/empty',
        'draw crops ^ --images $/empty',
        f'{TRAIN}.data_prefix=$/empty',
        f'{TEST}.data_prefix=$/empty',
        'draw entropies $/empty',
        *(
            f'transfer ^ {name}=$/empty'
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
        'knn ^ --train $/texts',
        'cluster ^ --test $/texts',
        'split $/texts out.txt --fraction=.5',
        'draw similarities ^ --images $/texts',
        'draw crops ^ --images $/texts',
        f'{TRAIN}.data_prefix=$/texts',
    ],
)
def test_a_class_without_images(root, command):
    assert f'{root}/texts' in said(root, command)


@pytest.mark.parametrize('workers', [0, 1])
@pytest.mark.parametrize(
    'command', ['knn ^ --test $/broken', 'cluster ^ --test $/broken']
)
def test_an_image_that_cannot_be_read(root, command, workers):
    sentence = said(root, f'{command} --num-workers {workers}')
    image = f'{root}/broken/class0/000.png'
    assert sentence.endswith(
        f': 1 image cannot be read: {image} (ValueError: this is no image)'
    )


def test_a_class_with_one_image(root, capsys):
    for command in (
        'transfer ^ mine=$/one --size=16',
        'split $/one/train out.txt --fraction=.5',
    ):
        assert 'class 0 has 1' in said(root, command)


@pytest.mark.parametrize(
    'command',
    [
        'knn $/config.py $/{}',
        'cluster $/config.py $/{}',
        'transfer $/config.py $/{} mine=$ --size=16',
        'draw attention $/config.py $/{} $/train',
        'draw similarities $/config.py $/{}',
        'draw crops $/config.py $/{}',
        'train $/pretrained.py --cfg-options custom_hooks.0.checkpoint=$/{}',
        'train $/train.py --resume $/{}',
        'test $/train.py $/{}',
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
        'test $/train.py $/half_model.pth',
        'train $/train.py --resume $/half_model.pth',
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
        'knn ^ --cfg-options train_dataloader.dataset.ann_file=$/gone.txt',
        'draw crops ^ --cfg-options train_dataloader.dataset.ann_file=$/gone.txt',
    ],
)
def test_a_missing_split_file(root, command):
    assert f"there is no '{root}/gone.txt'" in said(root, command)


@pytest.mark.parametrize(
    'command, sentence',
    [
        ('knn ^ --k=50', 'k=50 neighbors need at least'),
        ('knn ^ --k=0', 'got k=0'),
        ('knn ^ --fraction=0', 'fraction must be in (0, 1]'),
        ('knn ^ --size=0', '--size must be at least 1'),
        ('knn ^ --batch-size=0', 'batch_size'),
        ('knn ^ --num-workers=-1', 'num_workers'),
        ('knn $/gone.py $/weights.pth', '/gone.py'),
        ('draw attention $/gone.py $/weights.pth $/train', '/gone.py'),
        ('cluster ^ --seed=-1', 'seed=-1'),
        ('cluster ^ --num-classes 2 --draws=1 --out=$/train.py/a', '/train.py/a'),
        ('draw similarities ^ --seed=-1', 'Seed must be'),
        (
            'draw crops ^ --images $/train --coco $/train.py --out $/a.png',
            'train.py',
        ),
        ('cluster ^ --num-classes 4', 'one is 4'),
        ('cluster ^ --draws=0', 'draws must be at least 1'),
        ('draw attention ^ $/broken', '/broken/class0/000.png'),
        ('draw crops ^ --images $/broken', '/broken/class0/000.png'),
        ('draw crops ^', 'No transform'),
        ('train $/pretrained.py --cfg-options custom_hooks.0.source=x', 'source'),
        (
            'train $/train.py --cfg-options train_dataloader.drop_last=True '
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
            run_verb('train', root / 'train.py', *arguments)

    weights = root / 'weights.pth'
    monkeypatch.setattr('mmbam.evaluation.knn_accuracy', lambda *_, **__: int('x'))
    with pytest.raises(ValueError, match='invalid literal'):
        run_verb('knn', root / 'config.py', weights, '--num-workers', 0)
    monkeypatch.setattr('mmbam.evaluation.knn_accuracy', lambda *_, **__: open('/no'))
    with pytest.raises(FileNotFoundError, match='/no'):
        run_verb('knn', root / 'config.py', weights, '--num-workers', 0)
