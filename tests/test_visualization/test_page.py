"""A page holds all it shows, and marks what is ahead beyond doubt."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from mmbam.visualization.page import Picture, Section, Table, write_page


@pytest.fixture
def pictures(tmp_path):
    paths = [tmp_path / 'a.png', tmp_path / 'b.jpg']
    for value, path in zip((10, 200), paths):
        Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(path)
    return paths


class Tags(HTMLParser):
    """Names and attributes of all tags, and whether each is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.texts = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ('meta', 'img'):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else '', data))


def test_every_picture_is_inside_and_nothing_outside_is_asked_for(tmp_path, pictures):
    path = tmp_path / 'deep' / 'page.html'
    parts = ['Text.', *(Picture(p, f'picture {p.name}') for p in pictures)]
    table = Table(['network', 'top-1 (%)'], [['a', 1.0], ['b', 2.0]])
    write_page(path, 'Results', [Section('One', parts), Section('Two', [table])])
    text = path.read_text(encoding='utf-8')
    tags = Tags(text)
    assert tags.open == []
    images = [attrs for tag, attrs in tags.tags if tag == 'img']
    for attrs, picture, kind in zip(images, pictures, ('png', 'jpeg'), strict=True):
        start, data = attrs['src'].split(',')
        assert start == f'data:image/{kind};base64'
        assert base64.b64decode(data) == picture.read_bytes()
        assert attrs['alt'] == f'picture {picture.name}'
    without_data = re.sub(r'base64,[^"]*', '', text)
    assert not re.search(r'http|//|url\(|@import|<script|<link', without_data)
    sources = [a for _, attrs in tags.tags for a in attrs if a in ('src', 'href')]
    assert sources == ['src'] * 2
    assert str(tmp_path) not in text


def test_text_is_escaped_wherever_it_stands(tmp_path, pictures):
    bad = '<script>alert("x")</script> & co'
    table = Table([bad], [[bad]], caption=bad)
    parts = [bad, table, Picture(pictures[0], bad)]
    write_page(tmp_path / 'page.html', bad, [Section(bad, parts)])
    tags = Tags((tmp_path / 'page.html').read_text(encoding='utf-8'))
    assert 'script' not in [tag for tag, _ in tags.tags]
    places = [place for place, text in tags.texts if text == bad]
    expected = ['title', 'h1', 'h2', 'p', 'caption', 'th', 'td', 'figcaption']
    assert places == expected
    assert next(a['alt'] for tag, a in tags.tags if tag == 'img') == bad


def test_what_leads_by_more_than_the_error_is_marked(tmp_path):
    rows = [
        ['raw pixels', (10.0, 1.0), (50.04, 1.0), 20.0, (1.0, 0.1), 'x'],
        ['random', None, (54.0, 2.0), 30.0, 3.0, 'y'],
        ['trained', (13.0, 1.0), (40.0, 1.0), float('nan'), (9.0, 0.1), 'z'],
    ]
    table = Table(['features', *'abcde'], rows)
    # b: 4 points are within twice the error of 2.2. c and d: without errors.
    assert table.best_cells() == {(2, 1)}
    write_page(tmp_path / 'page.html', '', [Section('', [table])])
    text = (tmp_path / 'page.html').read_text(encoding='utf-8')
    cells = re.findall(r'<td([^>]*)>([^<]*)</td>', text)
    assert [k for k, (kind, _) in enumerate(cells) if 'best' in kind] == [13]
    shown = [text for _, text in cells]
    assert shown[:4] == ['raw pixels', '10.0 ± 1.0', '50.0 ± 1.0', '20.0']
    assert shown[7] == shown[15] == '–'
    numbers = {k % 6 for k, (kind, _) in enumerate(cells) if 'number' in kind}
    assert numbers == {1, 2, 3, 4}, 'columns of numbers are aligned to the right'


def test_equal_values_and_a_single_row_have_no_best():
    assert Table(['a', 'b'], [['x', (1.0, 0.0)]]).best_cells() == set()
    both = [['x', (1.0, 0.0)], ['y', (1.0, 0.0)]]
    assert Table(['a', 'b'], both).best_cells() == set()


def test_what_is_wrong_is_said(tmp_path, pictures):
    with pytest.raises(ValueError, match='2 cells for its 1 columns'):
        Table(['a'], [['x', 1.0]])

    def write(picture):
        write_page(tmp_path / 'p.html', '', [Section('', [Picture(picture, '')])])

    with pytest.raises(FileNotFoundError, match='no picture'):
        write(tmp_path / 'gone.png')
    (tmp_path / 'text.png').write_text('text')
    with pytest.raises(ValueError, match='PNG and JPEG'):
        write(tmp_path / 'text.png')
