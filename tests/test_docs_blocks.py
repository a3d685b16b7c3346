"""What the documentation tells readers to type works.

Every command of a shell block is parsed by the command's own parser, and its files and
keys are looked up. Commands that take seconds are also run, on 64 images in the place
of the reader's. Every block of Python is run, or read as a config.
"""

from __future__ import annotations

import contextlib
import re
import shutil

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS as ALL_MODELS
from mmengine.registry import DefaultScope
from mmpretrain.registry import MODELS, TRANSFORMS

from mmbam.comparison.method import load_methods
from mmbam.engine.config_check import check_config
from mmbam.utils.errors import InputError
from tests.helpers import documented
from tests.helpers.pages import PAGES, blocks, commands, spans
from tests.helpers.photographs import write_photographs
from tests.helpers.run import ROOT, run_verb

# Verbs that take seconds on a few images, and what makes them take seconds.
QUICK = {
    'pretrain': ['--epochs', '1'],
    'pack': [],
    'stats': [],
    'embed': ['--num-workers', '0'],
    'neighbors': ['--num-workers', '0'],
    'judge': ['--num-workers', '0', '--number', '32'],
}
THIN = [
    '--cfg-options',
    'model.backbone.base_channels=16',
    'model.backbone.stem_channels=16',
]
# What a quick verb has not here: more processes, weights of other projects, or the
# runs of a comparison.
NOT_HERE = re.compile(r'--devices|--init|--teacher|_HUB|dino_|photo.jpg|_seed')
# What stands for the reader's files where the folder below has no such name.
NAMES = dict(CONFIG='run/config.py', CHECKPOINT='run/epoch_1.pth', IMAGES='images')
# Blocks of docs/export.md are run by tests/test_exporting/test_docs.py.
PYTHON = [block for block in blocks('python') if block.page.name != 'export.md']
SHELL = blocks('bash', 'sh', 'shell')


def quick(words):
    line = ' '.join(words)
    return words[0] == 'mmbam' and words[1] in QUICK and not NOT_HERE.search(line)


# One of those that say the same.
QUICK_BLOCKS = {str([*filter(quick, commands(b.code))]): b for b in SHELL}
QUICK_BLOCKS = [block for words, block in QUICK_BLOCKS.items() if words != '[]']


@pytest.fixture(scope='module')
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp('reader')
    write_photographs(folder / 'images', 64)
    return folder / 'images'


@pytest.fixture(scope='module')
def reader(images):
    """A folder with what the pages call the reader's: images, two runs, weights."""
    folder = images.parent
    with contextlib.chdir(folder):
        _, error = run_verb(
            'pretrain', 'images', *QUICK['pretrain'], '--out=run', *THIN
        )
    assert error is None
    for name in ('photos', 'cifar3000', 'DIR'):
        (folder / name).symlink_to('images')
    (folder / 'images/train').symlink_to('.')  # as cifar3000/train
    for name in ('a', 'b'):
        shutil.copytree(folder / 'run', folder / 'work_dirs' / name)
        shutil.copy(next(images.glob('*/*.jpg')), folder / f'{name}.jpg')
    (folder / 'bands').mkdir()
    for i in range(3):
        np.save(folder / f'bands/{i}.npy', np.full((8, 8, 5), 1000 * i, np.uint16))
    return folder


@pytest.mark.parametrize('block', SHELL, ids=str)
def test_a_command_takes_these_arguments(block, images):
    found = commands(block.code)
    assert found
    files = [b.file for b in PYTHON if b.page == block.page]
    for words in found:
        documented.check_command(words, files, images)


@pytest.mark.slow
@pytest.mark.parametrize('block', QUICK_BLOCKS, ids=str)
def test_a_quick_command_runs(block, reader, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in reader.iterdir():
        (tmp_path / path.name).symlink_to(path)
    for words in filter(quick, commands(block.code)):
        verb, *rest = (NAMES.get(word, word) for word in words[1:])
        if verb == 'stats':
            rest = ['bands' if word == 'DIR' else word for word in rest]
        thin = THIN if verb == 'pretrain' and '--cfg-options' not in rest else []
        _, error = run_verb(verb, *rest, *QUICK[verb], *thin)
        assert error is None


class Noted(dict):
    """A dict that remembers all of its kind: what a block writes as ``dict(...)``."""

    all: list = []

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        Noted.all.append(self)


@pytest.mark.parametrize('block', PYTHON, ids=str)
def test_python_works(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if '_base_ = ' in block.code or 'method = dict' in block.code:
        check_file(block, tmp_path / (block.file or 'config.py'))
        return
    names = given(block, tmp_path)
    monkeypatch.setattr(Noted, 'all', [])
    exec(compile(block.code, str(block), 'exec'), names)
    for call in Noted.all:
        if 'type' in call:
            documented.check_arguments(call)
            if call['type'].startswith('mmbam.') and call['type'] in TRANSFORMS:
                TRANSFORMS.build(call)


def check_file(block, path):
    """A config, or a method to compare with, under its name in the first line."""
    path.write_text(block.code)
    if 'method = dict' in block.code:
        load_methods([path])
        return
    if 'mmbam::benchmarks' in block.code:
        pytest.importorskip('mmdet')
        pytest.importorskip('mmseg')
    cfg = Config.fromfile(path)
    check_config(cfg)
    documented.check_types(cfg._cfg_dict.get('model'), cfg.default_scope)


def given(block, folder):
    """What a block takes for granted, and no block makes."""
    names = dict(dict=Noted, z=torch.randn(32, 16), z_teacher=torch.randn(8, 16))
    if 'network' in block.code:
        tiny = dict(embed_dims=24, num_layers=1, num_heads=2, feedforward_channels=24)
        vit = dict(type='mmpretrain.VisionTransformer', arch=tiny, img_size=16)
        names['network'] = network = MODELS.build(dict(vit, patch_size=8))
        for name in re.findall(r"'(\S+\.pth\S*)'", block.code):
            torch.save(network.state_dict(), folder / name)
    if 'embeddings.npz' in block.code:
        np.savez(folder / 'embeddings.npz', embeddings=np.zeros(3), files=['a'])
    return names


DOWNSTREAM = [block for block in PYTHON if block.page.name == 'custom_downstream.md']


@pytest.mark.parametrize('block', [b for b in DOWNSTREAM if b.file], ids=str)
def test_the_parts_of_a_downstream_network_fit_together(block, tmp_path, monkeypatch):
    """A neck or a head with the widths of another backbone fails here."""
    pytest.importorskip('mmdet')
    pytest.importorskip('mmseg')
    monkeypatch.chdir(tmp_path)
    (tmp_path / block.file).write_text(block.code)
    cfg = Config.fromfile(block.file)
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        network = ALL_MODELS.build(cfg.model).eval()
    assert network.backbone.depth == 18, 'the default of mmbam pretrain'
    with torch.no_grad():
        maps = network.extract_feat(torch.zeros(1, 3, 64, 64))
        if cfg.default_scope == 'mmseg':
            network.decode_head(maps)
            network.auxiliary_head(maps)


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_what_a_text_names_is_there(page):
    """Verbs and options, `mmbam.X`, and files of the repository."""
    for span in spans(page):
        if span.startswith('mmbam '):
            documented.check_span(span)
        if page.name == 'CHANGELOG.md' or 'NAME' in span:  # names what was, too
            continue
        if re.fullmatch(r'mmbam\.\w+(\.\w+)*', span):
            documented.check_name(span)
        if re.fullmatch(r'(mmbam|configs|tests|tools|benchmarks)/[\w./-]+', span):
            assert (ROOT / span).exists(), span
        if re.fullmatch(r'[\w-]+\.(py|sh)', span):
            shown = {block.file for block in PYTHON} | {'config.py'}
            here = [*ROOT.glob(span), *ROOT.glob(f'*/**/{span}')]
            assert span in shown or here, span


@pytest.mark.parametrize(
    'line',
    [
        'mmbam pack IMAGES OUT --verfy',
        'mmbam knm CONFIG CHECKPOINT',
        'mmbam train configs/bam/vit-s16.py',
        'mmbam train CONFIG --cfg-options model.micro_batch=auto',
        'mmbam train CONFIG --cfg-options train_dataloader.dataset.rot=x',
        'tools/dist_train.sh configs/bam/vit-s16_300e.py 8 --autoscale-lr',
        'tools/dist_run.sh configs/bam/vit-s16_300e.py 8',
        'mmbam compare DATA --epochs 5 --methods simclear',
        'mmbam compare DATA --epochs 5 --methods bam --set bam.model.head.loss.tauB=1',
        'python benchmarks/step.py --archs ViT-S/17',
        'make dems',
        'pip install "mmbam[band]"',
    ],
)
def test_a_mistake_in_a_command_is_found(line, images):
    with pytest.raises((AssertionError, InputError)):
        for words in commands(line):
            documented.check_command(words, [], images)
