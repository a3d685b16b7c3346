"""Files are written as a whole or not at all."""

from __future__ import annotations

import fcntl
import resource
from contextlib import contextmanager

import pytest
import torch
from matplotlib.figure import Figure

from mmbam.utils.errors import ExpectedError, InputError
from mmbam.utils.files import locked, require_writable, save_tensors, write_text
from mmbam.visualization.figures import save_figure

LIMIT = 2000


@contextmanager
def small_files_only():
    """Let the system refuse to write more than LIMIT bytes to a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def save_large_figure(path):
    figure = Figure()
    figure.subplots().plot(range(1000))
    save_figure(figure, path)


@pytest.mark.parametrize(
    'write',
    [
        lambda path: write_text(path, 'x' * 2 * LIMIT),
        lambda path: save_tensors(dict(a=torch.zeros(LIMIT)), path),
        save_large_figure,
    ],
    ids=['text', 'tensors', 'figure'],
)
@pytest.mark.parametrize('there', [True, False])
def test_a_file_that_cannot_be_finished_leaves_nothing(tmp_path, write, there):
    path = tmp_path / 'out.png'
    if there:
        path.write_text('before')
    with small_files_only(), pytest.raises(ExpectedError, match='out.png.*too large'):
        write(path)
    assert [p.name for p in tmp_path.iterdir()] == ['out.png'] * there
    if there:
        assert path.read_text() == 'before'
    write(path)
    assert path.stat().st_size > LIMIT


def test_an_input_is_not_overwritten_under_another_name(tmp_path):
    (tmp_path / 'in').write_text('x')
    (tmp_path / 'link').symlink_to('in')
    with pytest.raises(InputError, match='is read and would be overwritten'):
        require_writable(tmp_path / 'link', tmp_path / 'in')
    require_writable(tmp_path / 'new', tmp_path / 'in')
    require_writable(None, tmp_path / 'in')


def test_an_error_of_the_writer_passes_unchanged(tmp_path):
    with pytest.raises(AttributeError):  # a bug
        save_tensors(lambda: 0, tmp_path / 'out')
    assert not list(tmp_path.iterdir())


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_none(tmp_path, monkeypatch):
    """Else a third process could lock a new file of this name at the same time."""
    path, real, calls = tmp_path / 'lock', fcntl.lockf, []

    def lockf(file, how):
        real(file, how)
        calls.append(how)
        if len(calls) == 1:  # the process that had it before leaves
            path.unlink()

    monkeypatch.setattr('mmbam.utils.files.fcntl.lockf', lockf)
    with locked(path) as alone:
        assert alone and path.exists() and len(calls) == 2
    assert not path.exists()
