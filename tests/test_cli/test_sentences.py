"""Every mistake of the table ends with one sentence that names the culprit."""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from tests.helpers.mistakes import make_place, table
from tests.helpers.run import run_verb

ROWS = table()


@pytest.fixture(scope='module')
def made(tmp_path_factory) -> tuple[Path, dict[Path, bytes]]:
    root = tmp_path_factory.mktemp('place')
    make_place(root)
    return root, state_of(root)


@pytest.fixture
def place(made):
    """The folder of all rows, which each must leave as it was."""
    root, before = made
    yield root
    after = state_of(root)
    for path in after:
        if path not in before:
            path.unlink()
    for path, content in before.items():
        if after.get(path) != content:
            path.write_bytes(content)
    changed = [str(p) for p in {*before, *after} if before.get(p) != after.get(p)]
    assert not changed, 'what was there must stay as it was'


def state_of(root: Path) -> dict[Path, bytes]:
    """Content of every file in a folder."""
    return {path: path.read_bytes() for path in root.rglob('*') if path.is_file()}


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """End what was not refused and went to work, after so many seconds of work.

    Seconds of waiting, for other processes or on a busy machine, count a twentieth.
    """

    def stop(*_) -> None:
        raise TimeoutError(f'it is still running after {seconds} s')

    clocks = {signal.ITIMER_PROF: signal.SIGPROF, signal.ITIMER_REAL: signal.SIGALRM}
    for clock, number in clocks.items():
        signal.signal(number, stop)
        factor = 1 if clock == signal.ITIMER_PROF else 20
        signal.setitimer(clock, factor * seconds)
    try:
        yield
    finally:
        for clock in clocks:
            signal.setitimer(clock, 0)


def test_the_table_is_long():
    assert len(ROWS) >= 300


@pytest.mark.parametrize(
    'command',
    ['train $/bam.py', 'knn $/config.py $/weights.pth --num-workers 0 --k 3'],
)
def test_without_a_mistake_the_commands_work(place, tmp_path, command):
    """Or the rows below could pass for another reason than the mistake."""
    tool, *args = command.replace('$', str(place)).split()
    if tool == 'train':
        args += ['--work-dir', tmp_path]
    assert run_verb(tool, *args)[1] is None


@pytest.mark.parametrize('command, culprit', ROWS, ids=[row[0] for row in ROWS])
def test_one_sentence(place, tmp_path, capsys, command, culprit):
    command = command.replace('^', '$/config.py $/weights.pth')
    words = command.replace('$', str(place)).replace('@', str(tmp_path))
    tool, *args = words.split()
    if tool in ('train', 'test') and '--work-dir' not in args:
        args += ['--work-dir', tmp_path / 'work_dir']
    if tool in ('knn', 'linear', 'cluster', 'transfer') and len(args) > 1:
        args[2:2] = ['--num-workers', 0]
    with warnings.catch_warnings(), at_most(10):
        warnings.simplefilter('ignore')
        _, code = run_verb(tool, *args)
    if code == 2:  # of argparse: usage, then the sentence
        sentence = capsys.readouterr().err.strip().splitlines()[-1]
    else:
        sentence = code
    assert isinstance(sentence, str), f'it ended with {code!r}'
    assert '\n' not in sentence and 'Traceback' not in sentence
    assert sentence.startswith(f'mmbam {tool}'), sentence
    assert re.search(culprit, sentence, re.IGNORECASE), sentence
    assert len(sentence) < 1000, 'it is too long to be read'


@pytest.fixture(scope='module')
def run_dir(made, tmp_path_factory) -> Path:
    """Work directory of a finished run."""
    folder = tmp_path_factory.mktemp('run')
    assert train(made[0], folder)[1] is None
    return folder


def train(place, folder, *options, config='bam.py', resume=False):
    """Run `mmbam train`; without a checkpoint, resume from the latest."""
    more = ['--cfg-options', *options] if options else []
    more += ['--resume'] if resume else []
    return run_verb('train', place / config, '--work-dir', folder, *more)


@pytest.mark.parametrize(
    'option, culprit',
    [
        ('model.neck.out_channels=12', 'neck.layers'),
        ('model.teacher=None', 'left over: teacher.backbone'),
        ('model.backbone.depth=34', 'backbone.layer1'),
        ('optim_wrapper.optimizer.type=SGD', 'optimizer'),
        ('optim_wrapper.paramwise_cfg=None', 'groups of weights'),
    ],
)
def test_the_latest_checkpoint_of_another_run_is_refused(
    place, run_dir, option, culprit
):
    before = {path for path in run_dir.iterdir() if path.suffix == '.pth'}
    _, sentence = train(place, run_dir, option, 'train_cfg.max_epochs=2', resume=True)
    assert isinstance(sentence, str) and culprit in sentence
    assert str(run_dir) in sentence
    assert {path for path in run_dir.iterdir() if path.suffix == '.pth'} == before


FROZEN = """
_base_ = './bam.py'
custom_hooks = []
model = dict(
    neck=dict(out_channels=16),
    teacher=dict(
        _delete_=True, type='mmbam.FrozenTeacher',
        backbone=dict(
            type='ResNet', depth=18, stem_channels=8, base_channels=8, num_stages=2,
            strides=(1, 2), dilations=(1, 1), out_indices=(1,))))
"""


def test_a_frozen_teacher_has_weights_and_keeps_them(place, tmp_path):
    config = tmp_path / 'frozen.py'
    config.write_text(FROZEN.replace('./bam.py', f'{place}/bam.py'))
    _, sentence = train(place, tmp_path, config=config)
    assert 'FrozenTeacher: checkpoint must name a file' in sentence
    one, two = f'{place}/bam.pth', str(tmp_path / 'two.pth')
    weights = torch.load(one)
    for value in weights['state_dict'].values():
        value += 1
    torch.save(weights, two)
    assert (
        train(place, tmp_path, f'model.teacher.checkpoint={one}', config=config)[1]
        is None
    )
    options = [f'model.teacher.checkpoint={two}', 'train_cfg.max_epochs=2']
    _, sentence = train(place, tmp_path, *options, config=config, resume=True)
    assert 'another frozen teacher' in sentence
    options[0] = f'model.teacher.checkpoint={one}'
    assert train(place, tmp_path, *options, config=config, resume=True)[1] is None


def test_a_schedule_longer_than_the_run_is_mentioned(place, tmp_path):
    # A name of its own: mmengine keeps the logger of a run that began in this second.
    options = ['param_scheduler.0.end=5', 'log_level=WARNING', 'experiment_name=own']
    assert train(place, tmp_path, *options)[1] is None
    (log,) = tmp_path.rglob('*.log')
    assert 'ends after 5 epochs, but the run has 1' in log.read_text()
