"""`mmbam pretrain`: one line from a folder to weights, and the same by its config."""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.logging import MMLogger

from mmbam.checkpoints import load_training_checkpoint
from mmbam.cli import pretrain
from mmbam.cli.main import build_parser
from mmbam.engine import launch, work_dir
from mmbam.engine.hooks import PageHook
from mmbam.engine.resuming import set_reliable
from mmbam.engine.signals import Stopped
from mmbam.recipes import run as recipe_run
from mmbam.utils.errors import InputError
from tests.helpers.folders import write_photos
from tests.helpers.run import ROOT

THIN = [
    '--cfg-options',
    'model.backbone.base_channels=4',
    'model.backbone.stem_channels=4',
    'model.neck.hid_channels=16',
    'model.neck.out_channels=16',
    'train_dataloader.num_workers=0',
    'train_dataloader.persistent_workers=False',
]


@pytest.fixture(scope='module')
def photos(tmp_path_factory) -> Path:
    folder = write_photos(tmp_path_factory.mktemp('pretrain') / 'photos')
    (folder / 'a' / 'broken.jpg').write_bytes(b'\xff\xd8\xff broken')
    return folder


@pytest.fixture(scope='module')
def labeled(tmp_path_factory) -> Path:
    return write_photos(tmp_path_factory.mktemp('pretrain') / 'labeled')


def command(*words: object, options: bool = True) -> dict[str, str]:
    parser = argparse.ArgumentParser()
    pretrain.add_arguments(parser)
    outcome = pretrain.run(parser.parse_args([*map(str, words), *THIN * options]))
    work_dir._held.clear()  # as at the end of the process
    return outcome


def weights(checkpoint: str | Path) -> dict[str, torch.Tensor]:
    return load_training_checkpoint(checkpoint)['state_dict']


def assert_equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    for name, value in a.items():
        assert torch.equal(value, b[name]), name


@pytest.fixture(scope='module')
def done(photos, labeled, tmp_path_factory):
    """A run of two epochs, and what it printed."""
    out = tmp_path_factory.mktemp('runs') / 'photos'
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setattr(
            'builtins.print', lambda *words, **_: lines.append(' '.join(words))
        )
        words = (photos, '--epochs', 2, '--batch-size', 8, '--out', out)
        outcome = command(*words, '--labeled', labeled)
    return outcome, '\n'.join(lines), words


def test_one_line_gives_weights_a_config_and_a_page(done):
    outcome, _, _ = done
    assert outcome['checkpoint'].endswith('epoch_2.pth')
    assert all(Path(outcome[key]).exists() for key in outcome)
    state = weights(outcome['checkpoint'])
    assert all(value.isfinite().all() for value in state.values())


def test_the_summary_says_what_to_type_next(done):
    outcome, printed, (images, *_) = done
    config, checkpoint = outcome['config'], outcome['checkpoint']
    assert f'mmbam knn {config} {checkpoint}' in printed
    assert f'mmbam export {checkpoint} --to torchscript' in printed
    # The folder that neighbors takes without --out may hold parts of another run.
    assert f'{checkpoint} --out {Path(checkpoint).parent / "neighbors"}' in printed
    # Without --out, there would be a picture for each image.
    attention = f'attention {config} {checkpoint} {images} --out attention.png'
    assert attention in printed


def test_every_command_that_is_shown_can_be_typed(done):
    """A shell splits it, and the parser of its verb takes the words."""
    shown = [line[line.index('mmbam ') :] for line in done[1].splitlines()
             if line.startswith((' ', 'After a stop'))]  # fmt: skip
    assert len(shown) == 6
    for line in shown:
        words = shlex.split(line)[1:]
        build_parser(words).parse_args(words)


def test_the_command_to_go_on_has_all_arguments_of_the_run():
    parser = argparse.ArgumentParser()
    pretrain.add_arguments(parser)
    given = ['my photos', '--epochs', '3', '--out', "it's", '--devices', '2']
    args = parser.parse_args([*given, '--cfg-options', 'a.b=[1,2]', 'c=0.5', 'd=x y'])
    words = shlex.split(pretrain.resume_command(args))
    assert words[:2] == ['mmbam', 'pretrain']
    assert parser.parse_args(words[2:]) == argparse.Namespace(
        **{**vars(args), 'resume': True}
    )


def test_the_page_shows_the_run(done):
    page = Path(done[0]['page']).read_text(encoding='utf-8')
    assert 'The run is complete: 4 of 4 steps' in page
    assert page.count('<img') == 3  # curves, neighbours, views
    assert 'could not be drawn' not in page
    assert 'of 4 test images' in page


def test_the_config_alone_gives_the_same_weights_to_the_bit(done, tmp_path):
    outcome = done[0]
    cfg = launch.load_config(outcome['config'], str(tmp_path / 'again'))
    assert '_base_' not in Path(outcome['config']).read_text()
    set_reliable(cfg)
    launch.train(launch.build_runner(cfg))
    again = weights(tmp_path / 'again' / 'epoch_2.pth')
    assert_equal(weights(outcome['checkpoint']), again)


def test_a_run_that_was_stopped_ends_with_the_same_weights(
    done, photos, labeled, tmp_path, monkeypatch
):
    out = tmp_path / 'stopped'
    words = (photos, *done[2][1:5], '--out', out, '--labeled', labeled)

    def stop(self, runner):
        if runner.epoch == 1:
            raise Stopped(signal.SIGTERM)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(PageHook, 'before_train_epoch', stop)
        command(*words)
    work_dir._held.clear()
    assert 'The same command with --resume goes on' in (out / 'index.html').read_text()
    before = (out / 'config.py').read_text()
    outcome = command(*words, '--resume')
    assert_equal(weights(done[0]['checkpoint']), weights(outcome['checkpoint']))
    assert ' minutes since step 2.' in (out / 'index.html').read_text()
    # mmengine writes `resume = True` into it: another start would go on, too.
    assert (out / 'config.py').read_text() == before


def test_a_folder_in_use_is_refused(done, labeled, photos, capsys):
    with pytest.raises(InputError, match='is not empty: go on .* --resume'):
        command(*done[2])
    with pytest.raises(InputError, match='is not empty'):
        command(*done[2][:-1], photos)
    assert 'The page to watch' not in capsys.readouterr().out
    assert not (photos / '.lock').exists()
    words = [3 if word == 2 else word for word in done[2]]
    with pytest.raises(InputError, match='max_epochs=2, but these arguments give 3'):
        command(*words, '--labeled', labeled, '--resume')


def test_a_folder_of_a_live_run_is_not_offered_for_resuming(done, monkeypatch):
    def held(folder, *_):
        raise InputError(f'{folder} is in use')

    monkeypatch.setattr(recipe_run, 'lock_work_dir', held)
    with pytest.raises(InputError, match='is in use'):
        command(*done[2])


def test_a_start_that_failed_is_repeated_with_better_arguments(photos, tmp_path):
    words = (photos, '--epochs', 1, '--batch-size', 8, '--out', tmp_path / 'out')
    junk = tmp_path / 'junk.pth'
    junk.write_bytes(b'no checkpoint')
    with pytest.raises(InputError, match='junk.pth'):
        command(*words, '--init', junk)
    work_dir._held.clear()
    assert (tmp_path / 'out' / 'config.py').is_file()
    assert command(*words)['checkpoint'].endswith('epoch_1.pth')


def test_a_config_of_somebody_else_is_not_overwritten(photos, tmp_path):
    (tmp_path / 'config.py').write_text('a = 1')
    for resume in ([], ['--resume']):
        with pytest.raises(InputError):
            command(photos, '--out', tmp_path, *resume)
    assert (tmp_path / 'config.py').read_text() == 'a = 1'
    assert not (tmp_path / '.lock').exists()


def test_a_dry_run_finds_mistakes_in_options(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match='randomness.seed must be'):
        command(photos, '--dry-run', '--cfg-options', 'randomness.seed=-1')


def test_a_dry_run_writes_nothing(photos, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = command(photos, '--dry-run')
    assert outcome['out'] == 'runs/photos-resnet18'
    assert list(tmp_path.iterdir()) == []
    assert 'no larger than the images' in capsys.readouterr().out


def test_warnings_are_shown_but_not_of_each_weight_of_a_teacher(capsys):
    logger = logging.Logger('run')
    logger.addHandler(logging.StreamHandler())
    recipe_run._show_warnings(SimpleNamespace(logger=logger))
    logger.warning('teacher.ln1.bias is skipped since its requires_grad=False')
    logger.info('a line of the log')
    logger.warning('the run is dead')
    assert capsys.readouterr().err == 'the run is dead\n'


@pytest.mark.parametrize(
    'words, variables, batch_size',
    [
        ([], dict(NNODES='2'), 20),  # of an earlier job: it adds nothing by itself
        (['--devices', 2], dict(NNODES='2', WORLD_SIZE='4'), 5),
        (['--devices', 1], dict(NNODES='2', WORLD_SIZE='4'), 5),  # 1 here, 3 there
    ],
)
def test_a_batch_is_shared_by_the_processes_of_all_machines(
    photos, monkeypatch, words, variables, batch_size
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    parser = argparse.ArgumentParser()
    pretrain.add_arguments(parser)
    given = [photos, '--batch-size', 20, *words]
    cfg, _ = pretrain.plan(parser.parse_args([*map(str, given), *THIN]))
    assert cfg.train_dataloader.batch_size == batch_size


def test_only_the_table_says_how_many_images_there_are(photos, labeled):
    records: list[logging.LogRecord] = []
    handler = logging.Handler(logging.INFO)
    handler.emit = records.append  # type: ignore[method-assign]
    logger = MMLogger.get_current_instance()
    logger.addHandler(handler)
    try:
        command(photos, '--dry-run', '--labeled', labeled)
    finally:
        logger.removeHandler(handler)
    said = [record.getMessage() for record in records]
    assert not [text for text in said if 'images' in text]


@pytest.mark.parametrize(
    'words, match',
    [
        (['missing'], 'missing. does not exist'),
        (['{}', '--epochs', 0], 'epochs must be at least 1'),
        (['{}', '--model', 'resnet8'], 'must be one of resnet18, .* timm:NAME'),
        (['{}', '--batch-size', 900], 'number of images, 21, but got 900'),
        (['{}', '--labeled', 'missing'], 'no folder'),
        (['{}', '--cfg-options', 'randomness.seed=-1'], 'randomness.seed must be'),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    photos, tmp_path, monkeypatch, words, match
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=match):
        command(*(str(word).format(photos) for word in words))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(
    not (ROOT / 'mmbam' / 'engine' / 'torchrun.py').is_file(),
    reason='needs mmbam.engine.torchrun',
)
def test_two_devices_train_together(photos, tmp_path):
    words = [photos, '--epochs', 1, '--batch-size', 8, '--out', tmp_path / 'out']
    done = subprocess.run(
        [sys.executable, '-m', 'mmbam', 'pretrain', *map(str, words)]
        + ['--devices', '2', *THIN],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / 'out' / 'epoch_1.pth').is_file()
    assert 'What you may type next' in done.stdout
    log = next((tmp_path / 'out').glob('*/vis_data/scalars.json'))
    assert json.loads(log.read_text().splitlines()[-1])['step'] == 2
