"""`mmbam chain` from end to end, at a minimal size."""

from __future__ import annotations

import base64
import json

import pytest

from tests.helpers.run import run_verb

pytestmark = pytest.mark.slow
SMALL = (
    *('--patches', 160, 64, '--scenes', 16, 6, '--epochs', 2),
    *('--detection-epochs', 1, '--segmentation-iters', 2),
)
COLUMNS = ['backbone', 'k-NN (%)', 'linear probe (%)', 'box AP (%)', 'mask AP (%)',
           'mIoU (%)', 'mAcc (%)', 'J & F (%)']  # fmt: skip


@pytest.fixture(scope='module')
def chain(tmp_path_factory):
    out = tmp_path_factory.mktemp('chain') / 'resnet'
    args = ('--out', out, *SMALL)
    printed, error = run_verb('chain', *args)
    assert error is None
    return out, printed, args


def test_both_networks_have_a_figure_for_every_task(chain):
    out, printed, _ = chain
    rows = json.loads((out / 'chain.json').read_text())['rows']
    assert [row['backbone'] for row in rows] == ['random weights', 'BAM']
    for row in rows:
        assert list(row) == COLUMNS
        figures = list(row.values())[1:]
        assert all(0 <= figure <= 100 for figure in figures), figures
        assert all(f'{figure:.1f}' in printed for figure in figures)


def test_figures_and_pictures_join_those_of_the_demo_on_one_page(chain):
    out, _, _ = chain
    page = (out / 'index.html').read_text()
    for row in json.loads((out / 'chain.json').read_text())['rows']:
        assert f'{row["J & F (%)"]:.1f}' in page
    pictures = [*out.glob('*.png'), *out.glob('video/*/strips.png')]
    assert len(pictures) == 4 + 2 + 2  # of the demo, of both heads, of both networks
    for picture in pictures:
        assert base64.b64encode(picture.read_bytes()).decode() in page
    assert page.count('<img') == len(pictures) == page.count('src="data:image')


def test_a_second_run_takes_what_is_there(chain):
    out, first, args = chain
    before = (out / 'chain.json').read_text()
    printed, error = run_verb('chain', *args)
    assert error is None
    assert 'loss' in first and 'loss' not in printed, 'nothing was trained again'
    after = (out / 'chain.json').read_text()
    assert json.loads(before)['rows'] == json.loads(after)['rows']


def test_a_head_trained_with_other_settings_is_trained_again(chain):
    out, _, args = chain
    printed, error = run_verb('chain', *args, '--segmentation-iters', 3)
    assert error is None
    assert 'Step 3/3' in printed and 'Epoch' not in printed


def test_results_of_other_settings_are_not_taken_for_these(chain):
    out, _, args = chain
    _, error = run_verb('chain', *args, '--seed', 7)
    assert 'other settings' in error and str(out) in error
