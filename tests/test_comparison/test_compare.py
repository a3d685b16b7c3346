"""Comparisons: every method trains; runs are measured, continued and reported."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from markupsafe import escape
from mmengine.logging import MessageHub
from mmengine.model import revert_sync_batchnorm
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS
from torch.utils.data import default_collate

from mmbam.comparison import (
    Settings,
    compare,
    load_method,
    method_names,
    plan,
    worker,
)
from mmbam.comparison.config import run_config, shared
from mmbam.comparison.measure_hook import MeasureHook, build_loaders
from mmbam.comparison.report import (
    failures,
    own_table,
    quality_table,
    stuck,
    write_report,
)
from mmbam.evaluation.loaders import build_dataset
from mmbam.utils.errors import InputError
from tests.helpers.folders import make_folders
from tests.helpers.run import run_verb

ROOT = Path(__file__).parents[2]
# What a user writes: the model, and a few words for the report.
MINE = """
method = dict(title='Mine', source='my paper', own='one layer')
model = dict(
    type='SimCLR',
    neck=dict(
        type='LinearNeck',
        in_channels='=width',
        out_channels=16,
        gap_dim='=2 if cnn else 0',
    ),
    head=dict(
        type='ContrastiveHead', loss=dict(type='CrossEntropyLoss'), temperature=0.2
    ),
)
"""
SMALL = dict(size=16, batch_size=8, head_width=16, local_views=2, evaluations=2)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp('data')
    make_folders(root)  # 3 classes, 8 images of each to train on, 5 to test
    return str(root)


@pytest.mark.parametrize('backbone', ['resnet', 'vit'])
@pytest.mark.parametrize('name', method_names())
def test_every_method_trains_every_backbone(name, backbone, data):
    # Moving averages read the length of the run from the hub.
    MessageHub.get_current_instance().update_info('max_iters', 100)
    settings = Settings(data, backbone=backbone, epochs=3, workers=0, **SMALL)
    method = load_method(name)
    if (name, backbone) == ('mae', 'resnet'):
        with pytest.raises(InputError, match='MAE needs a backbone of type MoCoV3ViT'):
            run_config(method, settings, 0, 3, 'folder')
        return
    cfg = run_config(method, settings, 0, 3, 'folder')
    model = MODELS.build(cfg.model)
    model.init_weights()
    model = revert_sync_batchnorm(model)
    dataset = build_dataset(cfg.train_dataloader.dataset)
    batch = default_collate([dataset[i]['inputs'] for i in range(8)])
    batch = model.data_preprocessor(dict(inputs=batch, data_samples=None))['inputs']
    loss = model(batch, None, mode='loss')['loss']
    loss.backward()
    assert loss.isfinite()
    build_optim_wrapper(model, cfg.optim_wrapper).step()
    trained = [p for p in model.backbone.parameters() if p.requires_grad]
    assert sum(p.grad is not None and bool(p.grad.any()) for p in trained) > 5
    network = worker.evaluated_network(model, settings.backbone_config())
    network.eval()
    with torch.no_grad():
        assert len(network(torch.randn(8, 3, 16, 16))[-1]) == 8


@pytest.fixture(scope='module')
def finished(data, tmp_path_factory):
    """A comparison of two methods that work and one that cannot."""
    out = tmp_path_factory.mktemp('out')
    settings = Settings(data, epochs=2, workers=0, **SMALL)
    return compare(settings, ['bam-teacher', 'mae', 'simclr'], out=out), out


@pytest.mark.slow
@pytest.mark.parametrize('name', ['mae', 'swav-multicrop'])
def test_methods_with_ways_of_their_own_run_to_the_end(name, data, tmp_path):
    settings = Settings(data, backbone='vit', epochs=2, workers=0, **SMALL)
    (run,) = compare(settings, [name], out=tmp_path)['runs']
    assert 'error' not in run, run


def test_a_comparison_measures_quality_time_and_memory(finished):
    results, out = finished
    assert json.loads((out / 'results.json').read_text()) == results
    assert (results['tested'], results['classes']) == (15, 3)
    runs = {run['method']: run for run in results['runs']}
    for name in ('bam-teacher', 'simclr'):
        run = runs[name]
        assert run['steps'] == 2 * 3  # 24 images in batches of 8
        assert [point['epoch'] for point in run['history']] == [0, 1, 2]
        seconds = [point['seconds'] for point in run['history']]
        assert seconds[0] == 0 and seconds == sorted(seconds)
        assert seconds[-1] == pytest.approx(run['train_seconds'])
        for key in ('knn', 'linear'):
            assert 0 <= run['history'][-1][key] <= 100
        assert 1 <= run['history'][-1]['rankme'] <= 15
        assert 0 <= run['history'][-1]['agreement'] <= 100
        assert len(run['losses']) == 6 and np.isfinite(run['losses']).all()
        assert 0 <= run['nmi'] <= 100
        times = run['step_seconds']
        assert 0 < times['p10'] <= times['median'] <= times['p90']
        assert run['images_per_second'] == pytest.approx(48 / seconds[-1])
        assert 0 <= run['wait_share'] < 1
        assert run['peak_memory'] is None or run['peak_memory'] > 1e5


def test_a_method_that_fails_is_reported_and_the_rest_goes_on(finished):
    results, _ = finished
    (sentence,) = failures(results)
    assert sentence.startswith('MAE, seed 0: InputError: MAE needs a backbone of')
    assert [row[0] for row in quality_table(results).rows] == ['BAM, teacher', 'SimCLR']


def test_the_command_shows_tables_and_writes_a_page(finished, data):
    _, out = finished
    printed, error = run_verb(
        'compare', data, '--methods', 'bam-teacher', 'simclr', '--epochs', 2,
        '--workers', 0, '--out', out, '--size', 16, '--batch-size', 8,
        '--head-width', 16, '--local-views', 2, '--evaluations', 2,
    )  # fmt: skip
    assert error is None
    assert printed.count('done already') == 2
    for text in ('Shared by all', 'Not shared', 'k-NN', 'BAM, teacher', 'SimCLR'):
        assert text in printed
    page = (out / 'index.html').read_text()
    assert page.count('data:image/png') == 4
    assert '15 test images of 3 classes' in page
    for sentence in shared(Settings(data, epochs=2, **SMALL)):
        assert str(escape(sentence)) in page


@pytest.mark.slow
def test_a_config_of_the_user_is_compared_with_bam(data, tmp_path):
    mine = tmp_path / 'mine.py'
    mine.write_text(MINE)
    settings = Settings(data, epochs=1, workers=0, **SMALL)
    results = compare(settings, ['bam', mine], out=tmp_path / 'out')
    assert failures(results) == []
    assert [row[0] for row in quality_table(results).rows] == ['BAM', 'Mine']
    assert own_table(results).rows[1] == ['Mine', 'my paper', 'one layer', '–']
    runs = {run['method']: run for run in results['runs']}
    assert runs['mine']['steps'] == runs['bam']['steps'] == 3

    mine.write_text(MINE.replace('temperature=0.2', 'temperature=0.3'))
    with pytest.raises(InputError, match='another config or other options of mine'):
        compare(settings, [mine], out=tmp_path / 'out')


def test_other_settings_need_another_folder(finished, data):
    _, out = finished
    with pytest.raises(ValueError, match='epochs'):
        compare(Settings(data, epochs=3, workers=0, **SMALL), ['simclr'], out=out)
    options = {'simclr': {'model.head.temperature': 0.5}}
    settings = Settings(data, epochs=2, workers=0, options=options, **SMALL)
    with pytest.raises(ValueError, match='other options of simclr'):
        compare(settings, ['simclr'], out=out)


@pytest.mark.slow
def test_an_interrupted_run_continues_and_ends_as_an_uninterrupted_one(
    data, tmp_path, monkeypatch
):
    settings = Settings(data, epochs=3, workers=0, **SMALL)
    worker.run(load_method('byol'), 0, settings, tmp_path / 'whole', 3)
    whole = json.loads((tmp_path / 'whole' / 'result.json').read_text())

    folder, original = tmp_path / 'parts', MeasureHook.before_train_epoch

    def interrupt(self, runner):
        original(self, runner)
        if runner.epoch == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MeasureHook, 'before_train_epoch', interrupt)
        with pytest.raises(KeyboardInterrupt):
            worker.run(load_method('byol'), 0, settings, folder, 3)
    assert not (folder / 'result.json').exists()
    epochs = []
    with monkeypatch.context() as patch:
        patch.setattr(
            MeasureHook,
            'before_train_epoch',
            lambda self, runner: epochs.append(runner.epoch),
        )
        worker.run(load_method('byol'), 0, settings, folder, 3)
    assert epochs == [2]
    parts = json.loads((folder / 'result.json').read_text())
    assert parts['steps'] == whole['steps'] == 9
    assert len(parts['history']) == len(whole['history'])
    for one, other in zip(whole['history'], parts['history']):
        for key in ('epoch', 'knn', 'linear'):
            assert one[key] == other[key]


@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_command_stops_its_run(data, tmp_path, number):
    arguments = ('--methods', 'simclr', '--epochs', '1000', '--size', '16')
    command = subprocess.Popen(
        [sys.executable, '-m', 'mmbam', 'compare', data, *arguments]
        + ['--batch-size', '8', '--workers', '0', '--out', tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # Libraries may print lines before; the next line comes from the run.
    assert any('training' in line for line in command.stdout)
    assert command.stdout.readline()
    children = Path(f'/proc/{command.pid}/task/{command.pid}/children')
    run = Path('/proc', children.read_text().split()[0])
    assert run.exists()
    command.send_signal(number)
    _, said = command.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert command.returncode == 130 and 'Run the command again' in said
    for _ in range(100):  # the system ends it soon after
        # A zombie, if nobody has asked for its exit code yet.
        if not run.exists() or (run / 'stat').read_text().split()[2] == 'Z':
            break
        time.sleep(0.1)
    else:
        pytest.fail('the run goes on')


def test_steps_are_timed_in_turns_so_that_another_job_slows_all_alike(
    data, tmp_path, monkeypatch
):
    bam, simclr, byol = map(load_method, ('bam', 'simclr', 'byol'))
    settings = Settings(data, minutes=1, workers=0, **SMALL)  # 3 steps in an epoch
    order, speed, busy = [], dict(bam=2.0, simclr=1.0, byol=1.0), [1.0]

    def timed_steps(method, settings, folder):
        order.append(method.name)
        if len(order) == 3:
            busy[0] = 10.0  # another job begins within the second turn
        return [busy[0] * speed[method.name]] * 2

    monkeypatch.setattr(plan, 'timed_steps', timed_steps)
    monkeypatch.setattr(plan.gc, 'collect', lambda: None)  # nothing was built
    file = tmp_path / 'plan.json'
    first = plan.plan_epochs([bam, simclr], settings, file)
    assert order == ['bam', 'simclr'] * 3
    assert first['simclr']['epochs'] == pytest.approx(2 * first['bam']['epochs'], abs=1)
    # Kept, and a method that is added on a quieter machine gets no more.
    busy[0], order[:] = 1.0, [None] * 4
    second = plan.plan_epochs([byol, bam], settings, file)
    assert order[4:] == ['byol', 'bam'] * 3
    assert second == dict(bam=first['bam'], byol=first['simclr'])
    assert plan.plan_epochs([bam], settings, file) == dict(bam=first['bam'])
    assert len(order) == 10


def test_a_method_whose_steps_fail_has_no_plan_but_an_error(data, tmp_path):
    settings = Settings(data, minutes=1e-4, workers=0, **SMALL)
    methods = [load_method('mae'), load_method('simclr')]
    planned = plan.plan_epochs(methods, settings, tmp_path / 'plan.json')
    assert planned['simclr'] == dict(epochs=1)
    assert planned['mae']['error'].startswith('InputError: MAE needs a backbone of')
    seconds = json.loads((tmp_path / 'plan.json').read_text())['simclr']['step_seconds']
    settings = Settings(data, minutes=100 * 3 * seconds / 60, workers=0, **SMALL)
    planned = plan.plan_epochs(methods[1:], settings, tmp_path / 'plan.json')
    assert planned['simclr'] == dict(epochs=100)


@pytest.mark.parametrize(
    'losses, expected',
    [
        ([5.61, *[5.537] * 30], True),  # at once where all attend to all alike
        ([7.15, 6.0, *[5.53] * 60], True),
        ([7.7, 3.0, 0.2, *[8.3] * 30], True),  # collapsed
        (np.linspace(6.2, 5.3, 50), False),
        ([0.0, -0.5, *[-0.9] * 60], False),  # done early
        (np.linspace(400, 300, 5), False),
        ([5.0, 4.9], False),  # too short to tell
    ],
)
def test_a_loss_that_never_left_its_start_is_called_stuck(losses, expected):
    assert stuck(dict(losses=list(losses))) == expected


@pytest.mark.parametrize(
    'tested, seeds, marked',
    [(1000, 1, set()), (9000, 1, {(1, 4)}), (9000, 2, set())],
)
def test_no_winner_is_marked_within_the_error(tested, seeds, marked):
    point = dict(linear=50.0, agreement=30.0, rankme=20.0)
    rest = dict(epochs=3, train_seconds=9.0, losses=[2.0, 1.0], nmi=1.0, ari=1.0)
    results = dict(
        tested=tested,
        classes=10,
        methods=dict(bam=dict(title='BAM'), simclr=dict(title='SimCLR')),
        runs=[
            dict(rest, method=name, history=[dict(point, knn=knn + 9 * seed)])
            for name, knn in (('bam', 50.0), ('simclr', 53.0))
            for seed in range(seeds)
        ],
    )
    table = quality_table(results)
    assert table.header[4] == 'k-NN (%)' and table.best_cells() == marked
    assert table.rows[0][4][1] == pytest.approx(
        np.hypot(100 * (0.25 / tested) ** 0.5, 4.5 * (seeds - 1)), rel=0.02
    )


def test_without_labels_no_accuracy_is_measured_and_it_says_so(data, tmp_path, capsys):
    images = tmp_path / 'images'
    for folder in sorted(Path(data, 'train').iterdir()):
        for file in folder.iterdir():
            images.mkdir(exist_ok=True)
            shutil.copy(file, images / f'{folder.name}_{file.name}')
    settings = Settings(str(images), epochs=1, workers=0, **SMALL)
    results = compare(settings, ['simclr'], out=tmp_path / 'out')
    assert failures(results) == []
    assert 'No labels' in capsys.readouterr().out
    (run,) = results['runs']
    assert {'knn', 'linear'}.isdisjoint(run['history'][-1]) and 'nmi' not in run
    assert (results['tested'], results['classes']) == (5, 0)
    header = quality_table(results).header
    assert 'neighbors agree (%)' in header and 'k-NN (%)' not in header
    page = write_report(results, tmp_path / 'out').read_text()
    assert 'No labels' in page and 'green frame' not in page


def test_views_are_the_same_each_time_and_differ_from_one_another(data):
    settings = Settings(data, epochs=1, workers=0, **SMALL)
    one, other = build_loaders(settings), build_loaders(settings)
    np.random.seed(5)
    for part in ('first', 'second'):
        views = [
            torch.stack([of[part].dataset[i][0] for i in range(4)])
            for of in (one, other)
        ]
        assert torch.equal(*views)
    assert not torch.equal(one['first'].dataset[0][0], one['second'].dataset[0][0])


def test_data_may_be_split_or_labeled_elsewhere(data, tmp_path):
    split = Settings(data, epochs=1).datasets()
    assert split['train']['data_root'].endswith('train')
    assert split['test']['data_root'].endswith('test')
    whole = Settings(f'{data}/train', epochs=1).datasets()
    assert len(whole['test']['indices']) == 3 * 2
    assert not set(whole['test']['indices']) & set(whole['train']['indices'])
    assert whole['pretrain']['indices'] == whole['train']['indices']
    images = tmp_path / 'images'
    shutil.copytree(f'{data}/train/class0', images)
    with pytest.raises(InputError, match='labeled needs at least 2 class folders'):
        Settings(data, labeled=str(images), epochs=1).datasets()
    other = Settings(str(images), labeled=data, epochs=1).datasets()
    assert other['pretrain']['data_root'] == str(images)
    assert other['train'] == split['train']


@pytest.mark.parametrize(
    'wrong, named',
    [
        (dict(), 'epochs=None'),
        (dict(epochs=1, minutes=1), 'minutes=1'),
        (dict(epochs=0), 'epochs must be at least 1'),
        (dict(minutes=0), 'minutes must be a finite number above 0'),
        (dict(epochs=1, batch_size=1), 'batch_size'),
    ],
)
def test_wrong_settings_are_named(wrong, named):
    with pytest.raises(ValueError, match=named):
        Settings('data', **wrong)


def test_wrong_input_is_named_before_the_first_run(data, tmp_path):
    out = tmp_path / 'out'
    for kwargs, methods, named in (
        (dict(), ['simple'], "no method 'simple'; .* bam, .*, simclr"),
        (dict(), [], 'Name a method'),
        (dict(), ['bam', 'bam'], "the name 'bam'"),
        (dict(data='nowhere'), ['bam'], 'nowhere'),
        (dict(batch_size=256), ['bam'], '24 images'),
        (dict(backbone='x'), ['bam'], 'backbone must be'),
    ):
        settings = Settings(**{**SMALL, 'data': data, 'epochs': 1, **kwargs})
        with pytest.raises((InputError, FileNotFoundError), match=named):
            compare(settings, methods, out=out)
    assert not out.exists()
    _, error = run_verb(
        'compare', data, '--epochs', 1, '--set', 'bum.lr=1', '--out', out
    )
    assert 'METHOD.KEY=VALUE' in error
