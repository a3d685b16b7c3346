"""The progress line of a run."""

from __future__ import annotations

import io
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from mmengine.runner import IterBasedTrainLoop

from mmbam.engine.hooks import ProgressHook
from mmbam.engine.hooks.signs import Health


def run(hook, iters=10, epochs=2, loop=None):
    runner = SimpleNamespace(
        iter=0, epoch=0, max_iters=iters, max_epochs=epochs, train_loop=loop
    )
    hook.before_train(runner)
    for runner.iter in range(iters):
        runner.epoch = runner.iter * epochs // iters
        loss = torch.tensor(1.5, requires_grad=True)  # as mmengine hands it on
        hook.after_train_iter(runner, 0, outputs=dict(loss=loss))
    hook.after_train(runner)


@pytest.mark.filterwarnings('error:Converting a tensor')
def test_plain_lines_where_there_is_no_terminal():
    with mock.patch('sys.stdout', io.StringIO()) as printed:
        run(ProgressHook(lines=5))
    lines = printed.getvalue().splitlines()
    assert len(lines) == 5
    assert lines[0].startswith('Epoch 1/2, loss 1.500, 20 %')
    assert lines[-1].startswith('Epoch 2/2, loss 1.500, 100 %')
    assert lines[-1].endswith('0 s left')


def test_entropies_and_their_meaning_are_shown_if_asked_for(monkeypatch):
    health = Health(2.25, 3.5, 2.5, uniform=4.0, word='healthy')
    monkeypatch.setattr(
        'mmbam.engine.hooks.progress_hook.run_health', lambda runner: health
    )
    with mock.patch('sys.stdout', io.StringIO()) as printed:
        run(ProgressHook(lines=1, health=True))
    assert 'loss 2.250, A 3.50, B 2.50: healthy, 100 %' in printed.getvalue()


def test_steps_are_counted_where_there_are_no_epochs():
    loop = mock.Mock(spec=IterBasedTrainLoop)
    with mock.patch('sys.stdout', io.StringIO()) as printed:
        run(ProgressHook(lines=5), epochs=1, loop=loop)
    assert printed.getvalue().startswith('Step 2/10, loss 1.500, 20 %')


def test_one_updated_line_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    with (
        mock.patch('sys.stdout', Terminal()) as printed,
        mock.patch.dict('os.environ', TERM='xterm', COLUMNS='100'),
    ):
        run(ProgressHook())
    text = printed.getvalue()
    last = text[text.rindex('Epoch') :]
    assert last.startswith('Epoch 2/2') and '100 %' in last
    assert text.count('\n') == 1


def test_the_number_of_lines_is_checked():
    with pytest.raises(ValueError, match='lines must be at least 1'):
        ProgressHook(lines=0)
