import numpy as np

from mmbam.utils.tables import print_table


def printed(capsys, header, rows):
    print_table('Scores', header, rows)
    title, *lines = capsys.readouterr().out.splitlines()
    assert title.strip() == 'Scores'
    # Borders and rules are rich's business.
    return [line[1:-1] for line in lines if any(map(str.isalnum, line))]


def test_the_first_column_is_left_aligned_and_the_others_right(capsys):
    header, row = printed(capsys, ['network', 'top-1'], [['a', 1.0]])
    assert header[:8] == ' network'
    assert row[:8] == ' a      '
    assert row.endswith('   1.0 ')


def test_floats_have_one_decimal_and_other_cells_are_as_they_are(capsys):
    cells = [0.25, 3.14159, np.float32(2.55), 7, '50.00', None]
    lines = printed(capsys, list('abcdef'), [cells])
    words = [cell.strip() for cell in lines[1].split('│')]
    assert words == ['0.2', '3.1', '2.5', '7', '50.00', 'None']


def test_square_brackets_are_shown(capsys):
    lines = printed(capsys, ['[cls]', 'n'], [['[bold]x', '[red]']])
    assert '[cls]' in lines[0]
    assert '[bold]x' in lines[1]
    assert '[red]' in lines[1]


def test_a_wide_table_is_not_folded_in_a_file(capsys):
    names = [f'column_{i:02}' for i in range(10)]
    lines = printed(capsys, names, [range(10)])
    assert len(lines) == 2
    assert all(name in lines[0] for name in names)
