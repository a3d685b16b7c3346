"""`mmbam doctor`: versions, devices, loading speed, and the curves of sick runs."""

from __future__ import annotations

import json
import math

import pytest

import mmbam
from mmbam.engine import doctor
from mmbam.engine.diagnosis import check_run
from mmbam.engine.doctor import NOTE, OK, PROBLEM, check_data, who_waits
from tests.helpers.folders import make_folders
from tests.helpers.run import run_verb

STEPS = 40


def healthy(i: int) -> dict:
    """What a healthy run logs at its step i."""
    rate = min(i / 5, 1 - i / STEPS)
    return dict(
        loss=5 - 2 * i / STEPS, lr=rate, entropy_a=4.8 - i / STEPS,
        entropy_b=3.5 - i / STEPS, grad_norm=1 + 0.1 * (i % 3), time=0.5,
        data_time=0.01, step=i + 1,
    )  # fmt: skip


def write(folder, change=lambda i: {}, steps=STEPS):
    (folder / 'vis_data').mkdir(parents=True)
    lines = [json.dumps({**healthy(i), **change(i)}) for i in range(steps)]
    (folder / 'vis_data/scalars.json').write_text('\n'.join(lines))
    return folder


def test_a_healthy_run_has_no_problem(tmp_path):
    found = check_run(write(tmp_path / 'run'))
    assert [one.level for one in found] == [OK] * 5
    assert found[0].text == 'the loss went from 4.925 to 3.125'


@pytest.mark.parametrize(
    'change, words, helps',
    [
        (lambda i: dict(loss=5.0 - 0.001 * i), 'never left its start', 'warm-up'),
        (lambda i: dict(loss=math.nan if i > 20 else 5), 'nan at step 22', 'lower'),
        (lambda i: dict(entropy_a=4.8, entropy_b=4.79), 'both are uniform', 'tau_b'),
        (
            lambda i: dict(entropy_b=healthy(i)['entropy_a'] - 0.01),
            'no sharper than A',
            'tau_b',
        ),
        (lambda i: dict(lr=i / STEPS), 'still rises at the end', 'max_epochs=N'),
        (lambda i: dict(grad_norm=99.0 if i % 9 == 0 else 1), 'more than 10', 'clip'),
        (lambda i: dict(grad_norm=0.0), 'gradients are zero', 'frozen'),
        (lambda i: dict(data_time=0.3), '60% of it waiting', 'num_workers|cores'),
    ],
)
def test_each_sickness_is_named_with_what_helps(tmp_path, change, words, helps):
    found = [f for f in check_run(write(tmp_path / 'run', change)) if f.level != OK]
    assert len(found) == 1 and found[0].level == PROBLEM
    assert words in found[0].text
    assert any(help in found[0].help for help in helps.split('|'))


@pytest.mark.parametrize('rise, noted', [(0.8, False), (1.5, True)])
def test_targets_that_became_flatter_are_noted(tmp_path, rise, noted):
    def change(i):
        return dict(entropy_b=(3.5 if i < 8 else 2) + rise * (15 < i < 30))

    found = [f for f in check_run(write(tmp_path / 'run', change)) if f.level != OK]
    assert len(found) == noted
    assert all(f.level == NOTE and 'flatter by 1.5 nats' in f.text for f in found)


def test_accuracy_that_fell_and_short_logs_are_noted(tmp_path):
    fell = write(tmp_path / 'fell', lambda i: {'knn/top1': 60.0 if i == 9 else 40.0})
    notes = [f.text for f in check_run(fell) if f.level == NOTE]
    assert len(notes) == 1 and 'best at step 10, 60.0 %' in notes[0]
    short = check_run(write(tmp_path / 'short', steps=3))
    assert short[0].level == NOTE and 'values logged: 3;' in short[0].text


def test_a_loss_above_that_of_a_network_that_knows_nothing_is_noted(tmp_path):
    def above(i):
        return {'monitor/uniform_entropy': 3.0}  # the loss ends at 3.125

    first, *others = check_run(write(tmp_path / 'above', above))
    assert first.level == NOTE and 'not below 3.000' in first.text
    assert 'More epochs' in first.help
    assert all(one.level == OK for one in others)
    below = write(tmp_path / 'below', lambda i: {'monitor/uniform_entropy': 3.2})
    assert check_run(below)[0].level == OK


@pytest.mark.parametrize(
    'loading, step, level, words',
    [
        (1.0, 2.0, OK, 'never waited for'),
        (1.05, 1.0, NOTE, '5% of the time'),
        (4.0, 1.0, PROBLEM, '75% of the time'),
    ],
)
def test_who_waits_for_whom(monkeypatch, loading, step, level, words):
    monkeypatch.setattr(doctor, 'cores', lambda: 8)
    found = who_waits(loading, step, workers=2, images=100)
    assert found.level == level and words in found.text
    assert f'2 workers load {100 / loading:.0f} images/s' in found.text
    assert ('num_workers=8' in found.help) == (level == PROBLEM)


def test_a_version_that_does_not_fit_is_a_problem(monkeypatch):
    monkeypatch.setattr('importlib.metadata.version', lambda name: '0.0.1')
    found = doctor.check_versions()
    assert found[0].level == PROBLEM and 'mmbam needs torch' in found[0].text


CONFIG = """
_base_ = 'mmbam::tiny/bam_resnet_32px.py'
train_dataloader = dict(batch_size=4, num_workers=2, dataset=dict(
    _delete_=True, type='CustomDataset', data_root='{root}', with_label=False,
    pipeline={{{{_base_.train_pipeline}}}}))
"""


def test_loading_and_steps_of_a_config_are_timed(tmp_path):
    make_folders(tmp_path, train=4, size=32)
    config = tmp_path / 'config.py'
    config.write_text(CONFIG.format(root=tmp_path / 'train'))
    images, waiting = check_data(config)
    assert images.text.startswith('12 images; one core makes')
    assert '2 workers load' in waiting.text and 'images/s' in waiting.text


def test_the_command_prints_and_returns_what_was_found(tmp_path):
    make_folders(tmp_path, train=4, size=32)
    sick = write(tmp_path / 'run', lambda i: dict(lr=i / STEPS))
    printed, error = run_verb('doctor', sick, '--data', tmp_path / 'train')
    assert error is None
    assert 'problem the learning rate still rises' in printed
    assert '12 images; one core' in printed
    assert 'problem' in printed.splitlines()[-1]
    found = mmbam.doctor(run=str(sick))
    assert list(found) == ['Packages', 'Devices', 'Curves']
    assert any(one['level'] == PROBLEM for one in found['Curves'])


@pytest.mark.parametrize(
    'words, sentence',
    [
        (['gone'], "There is no 'gone': name the work directory"),
        (['--data', 'gone.py'], 'Config file not found: gone.py'),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(words, sentence):
    error = run_verb('doctor', *words)[1]
    assert error.startswith(f'mmbam doctor: {sentence}')
