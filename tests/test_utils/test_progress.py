"""Progress of a loop: few lines in a file, one line on a terminal."""

import io
from unittest import mock

import pytest

from mmbam.utils import progress
from mmbam.utils.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(file, total=1000, **kwargs):
    with Progress(total, 'Features', file=file, **kwargs) as bar:
        for _ in range(total):
            bar.advance()


def test_a_file_gets_a_few_lines():
    file = io.StringIO()
    run(file)
    lines = file.getvalue().splitlines()
    assert [line.split(', ')[1] for line in lines] == ['25 %', '50 %', '75 %', '100 %']
    assert all(line.startswith('Features, ') for line in lines)
    assert lines[-1].endswith(', 0 s left')


def test_a_slow_loop_says_a_line_after_one_minute_two_four_and_so_on():
    file = io.StringIO()
    clock = mock.Mock(side_effect=range(0, 400_000, 30))  # 30 s a step
    with mock.patch.object(progress.time, 'monotonic', clock):
        run(file, 10, lines=1)
    lines = file.getvalue().splitlines()
    assert [line.split(', ')[1] for line in lines] == ['20 %', '40 %', '80 %', '100 %']
    assert lines[0] == 'Features, 20 %, 60 s, 4 min left'


@pytest.mark.parametrize(
    'seconds, text', [(59.6, '60 s'), (600, '10 min'), (4 * 3600, '4.0 h')]
)
def test_times_have_the_unit_that_fits(seconds, text):
    assert progress._duration(seconds) == text


def test_the_time_left_counts_from_where_an_earlier_run_ended():
    file = io.StringIO()
    clock = mock.Mock(side_effect=[0, 10, 20])
    with mock.patch.object(progress.time, 'monotonic', clock):
        bar = Progress(10, 'Steps', done=8, lines=10, file=file)
        bar.advance()
        bar.advance()
    assert 'Steps, 90 %, 10 s, 10 s left' in file.getvalue()


def test_a_terminal_gets_one_line_that_is_updated():
    file = Terminal()
    with mock.patch.dict('os.environ', TERM='xterm', COLUMNS='100'):
        run(file, 50)
    assert file.getvalue().count('\n') == 1 and '100 %' in file.getvalue()


def test_other_ranks_say_nothing():
    for file in (io.StringIO(), Terminal()):
        run(file, show=False)
        assert file.getvalue() == ''
