"""`mmbam video`: masks, table, JSON and picture from a checkpoint."""

import json
import re

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from mmbam.evaluation.video import read_labels
from tests.helpers.distributed import run_verb_on_ranks
from tests.helpers.run import run_verb
from tests.helpers.videos import (
    RESNET,
    VIT,
    make_davis,
    make_network,
    make_odd,
)


def cells_of(printed):
    """Cells of a table in the terminal: its header, then its rows."""
    rows = [re.split('[┃│]', line)[1:-1] for line in printed.splitlines()]
    return [[cell.strip() for cell in row] for row in rows if row]


@pytest.fixture
def made(tmp_path):
    make_davis(tmp_path / 'DAVIS', lengths=(4, 3, 5))
    return tmp_path, *make_network(tmp_path)


@pytest.mark.parametrize('backbone', [VIT, RESNET], ids=['vit', 'resnet'])
def test_masks_in_the_official_layout_a_table_and_a_picture(made, backbone):
    root, config, weights = made
    make_network(root, backbone)
    printed, error = run_verb(
        *('video', config, weights, '--root', root / 'DAVIS', '--size', 64),
        *('--last', 7, 2, '--out', root / 'out'),
    )
    assert error is None
    for t in (2, 7):
        for given in (root / 'DAVIS/Annotations/480p').glob('val-*/*.png'):
            path = root / f'out/T{t}' / given.parent.name / given.name
            with Image.open(path) as mask, Image.open(given) as truth:
                assert mask.mode == 'P' and mask.size == truth.size
                assert mask.getpalette()[:12] == truth.getpalette()[:12]
    found = json.loads((root / 'out/results.json').read_text())
    assert found['size'] == 64 and set(found['results']) == {'2', '7'}
    assert all(name.startswith('val-0') for name in found['results']['7']['objects'])
    header, *rows = cells_of(printed)
    assert header[:3] == ['T', 'J&F', 'J mean']
    for t, row in zip('72', rows, strict=True):
        scores = found['results'][t]
        assert row == [t, *(f'{scores[name]:.2f}' for name in header[1:])]
    assert 'Frames, 100 %' in printed and 's left' in printed
    assert cv2.imread(str(root / 'out/strips.png')) is not None


def test_two_ranks_give_the_masks_and_the_table_of_one(made):
    root, config, weights = made
    command = 'video', config, weights, '--root', root / 'DAVIS', '--size', 64
    printed, error = run_verb(*command, '--out', root / 'one', '--last', 3)
    assert error is None
    on_two = run_verb_on_ranks(2, root, *command, '--out', root / 'two', '--last', 3)
    assert len(cells_of(printed)) == 2
    assert cells_of(on_two) == cells_of(printed), 'the table is printed once'
    one, two = (
        json.loads((root / out / 'results.json').read_text())['results']
        for out in ('one', 'two')
    )
    assert one == two and list(one['3']['objects']) == list(two['3']['objects'])
    names = [p.relative_to(root / 'one') for p in root.glob('one/T3/*/*.png')]
    assert len(names) == 12
    for name in names:
        assert np.array_equal(read_labels(root / 'one' / name),
                              read_labels(root / 'two' / name))  # fmt: skip


def test_teacher_by_default_student_by_choice(made):
    root, config, weights = made
    command = 'video', config, weights, '--root', root / 'DAVIS', '--size', 64
    results = {}
    for source in ('auto', 'teacher', 'student'):
        out = root / source
        run_verb(*command, '--last', 7, '--out', out, '--source', source)
        results[source] = json.loads((out / 'results.json').read_text())['results']
    assert results['auto'] == results['teacher'] != results['student']


def test_without_scores_only_masks_are_written(made):
    root, config, weights = made
    make_odd(root / 'DAVIS', frames=2)
    (root / 'DAVIS/Annotations/480p/odd/00001.png').unlink()
    printed, error = run_verb(
        *('video', config, weights, '--root', root / 'DAVIS', '--size', 64),
        *('--out', root / 'out', '--no-scores'),
    )
    assert error is None and 'J&F' not in printed
    assert (root / 'out/T28/odd/00001.png').is_file()
    assert (root / 'out/strips.png').is_file()
    assert not (root / 'out/results.json').exists()


@pytest.mark.parametrize(
    'args, sentence',
    [
        ('{cfg} {ckpt} --root {root}/gone', 'There is no folder'),
        ('{cfg} {ckpt} --root {root}/DAVIS --split test', 'no list of sequences'),
        ('{cfg} {root}/gone.pth --root {root}/DAVIS', 'no checkpoint file'),
        ('{cfg} {root}/bad.pth --root {root}/DAVIS', 'does not fit'),
        ('{cfg} {ckpt} --root {root}/DAVIS --size 7', 'one patch, 8 pixels'),
        ('{cfg} {ckpt} --root {root}/DAVIS --last 0', 'must be different and at least'),
        ('{cfg} {ckpt} --root {root}/DAVIS --k 0', 'k must be at least 1'),
        ('{cfg} {ckpt} --root {root}/odd', 'scores need at least 3'),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(made, args, sentence):
    root, config, weights = made
    make_odd(root / 'odd', frames=1)
    torch.save({'backbone.other': torch.zeros(2)}, root / 'bad.pth')
    args = args.format(cfg=config, ckpt=weights, root=root).split()
    _, error = run_verb('video', *args, '--out', root / 'out')
    assert error.startswith('mmbam video: ') and sentence in error
    assert not (root / 'out').exists()
