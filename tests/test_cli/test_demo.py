"""`mmbam demo` from end to end, at a minimal size."""

from __future__ import annotations

import base64
import json
import re

import cv2
import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.neighbors import NearestNeighbors

from tests.helpers.run import run_verb

pytestmark = pytest.mark.slow
SMALL = ('--patches', 256, 96, '--epochs', 2)
MEAN, STD = 124.0, 60.0  # configs/_base_/datasets/world_2x32_4x16.py


def pixels_of(root, split):
    """Raw pixels as the network gets them, and labels."""
    pixels, labels = [], []
    for line in (root / 'meta' / f'{split}.txt').read_text().splitlines():
        file, label = line.rsplit(' ', 1)
        pixels.append(cv2.imread(str(root / split / file)).ravel())
        labels.append(int(label))
    return (np.array(pixels) - MEAN) / STD, np.array(labels)


def knn_by_sklearn(train, labels, test, test_labels, k=20, temperature=0.07):
    search = NearestNeighbors(n_neighbors=k, metric='cosine').fit(train)
    distances, index = search.kneighbors(test)
    votes = np.zeros((len(test), labels.max() + 1))
    weights = np.exp((1 - distances) / temperature)
    for row in range(len(test)):
        np.add.at(votes[row], labels[index[row]], weights[row])
    return 100 * (votes.argmax(1) == test_labels).mean()


@pytest.fixture(scope='module', params=['resnet', 'vit'])
def demo(request, tmp_path_factory):
    out = tmp_path_factory.mktemp('demo') / request.param
    printed, error = run_verb('demo', '--backbone', request.param, '--out', out, *SMALL)
    assert error is None
    return out, printed


def results_of(out):
    return json.loads((out / 'results.json').read_text())


def test_the_table_shows_the_figures_of_the_results(demo):
    out, printed = demo
    results = results_of(out)
    assert list(results['knn_top1']) == [
        'raw pixels',
        'random network',
        'trained student',
        'trained teacher',
    ]
    for name, value in results['knn_top1'].items():
        row = next(line for line in printed.splitlines() if name in line)
        clusters = results['clustering'][name]
        assert list(clusters) == ['4', '8', '16']
        assert 0 < value < 100, 'neither hopeless nor trivial'
        figures = value, results['linear_top1'][name]
        figures += clusters['16']['nmi'], clusters['16']['ari']
        shown = re.findall(r'(\d+\.\d) ± \d', row)
        assert shown == [f'{figure:.1f}' for figure in figures]


def test_the_page_holds_all_figures_and_pictures_and_needs_no_other_file(demo):
    out, _ = demo
    page = (out / 'index.html').read_text()
    results = results_of(out)
    for name, clusters in results['clustering'].items():
        accuracies = results['knn_top1'][name], results['linear_top1'][name]
        shown = [f'>{accuracy:.1f} ± ' for accuracy in accuracies]
        shown += [
            f'>{clusters["16"][key]:.1f} ± {clusters["16"][f"{key}_std"]:.1f}<'
            for key in ('nmi', 'ari')
        ]
        rows = ''.join(row for row in page.splitlines() if f'<td>{name}</td>' in row)
        assert all(figure in rows for figure in shown)
    pictures = list(out.glob('*.png'))
    assert len(pictures) == (5 if out.name == 'vit' else 4)
    for picture in pictures:
        assert base64.b64encode(picture.read_bytes()).decode() in page
    without = re.sub('base64,[^"]*', '', page)
    assert len(without) < 20_000
    assert not re.search('https?:|<script|<link|@import|file:', without)


def test_raw_pixels_score_what_scikit_learn_says(demo):
    out, _ = demo
    root = out / 'world' / 'imagenet'
    train, test = pixels_of(root, 'train'), pixels_of(root, 'val')
    results = results_of(out)
    expected = knn_by_sklearn(*train, *test)
    one_image = 100 / 96 + 1e-6
    assert results['knn_top1']['raw pixels'] == pytest.approx(expected, abs=one_image)
    clusters = KMeans(16, n_init=10, random_state=0).fit_predict(test[0])
    for name, score in (
        ('nmi', normalized_mutual_info_score),
        ('ari', adjusted_rand_score),
    ):
        shown = results['clustering']['raw pixels']['16']
        # k-means starts elsewhere, so that only the spread can be asked for.
        expected = 100 * score(test[1], clusters)
        assert shown[name] == pytest.approx(expected, abs=4 * shown[f'{name}_std'])


def test_the_last_point_of_the_curve_is_the_trained_network(demo):
    out, _ = demo
    (log,) = (out / 'run').glob('*/vis_data/scalars.json')
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    curve = [entry['knn/top1'] for entry in entries if 'knn/top1' in entry]
    figures = results_of(out)['knn_top1']
    assert len(curve) == 2
    assert curve[-1] == pytest.approx(figures['trained student'])
    assert any('entropy_a' in entry and 'entropy_b' in entry for entry in entries)


def test_the_pictures_are_drawn(demo):
    out, _ = demo
    names = ['clustering', 'curves', 'heatmaps', 'similarities']
    if out.name == 'vit':
        names.append('attention')
    for name in names:
        picture = cv2.imread(str(out / f'{name}.png'))
        assert min(picture.shape[:2]) > 200
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 100


def test_running_again_starts_over_and_leaves_other_files_alone(demo):
    out, first = demo
    if out.name != 'resnet':
        pytest.skip('once is enough')
    (out / 'note.txt').write_text('mine')
    (out / 'run' / 'stale').mkdir()
    (out / 'detection' / 'BAM').mkdir(parents=True)  # the chain's, of old weights
    before = results_of(out)['knn_top1']
    _, error = run_verb('demo', '--out', out, *SMALL)
    assert error is None
    assert (out / 'note.txt').read_text() == 'mine'
    assert not (out / 'run' / 'stale').exists()
    assert not (out / 'detection').exists()
    assert results_of(out)['knn_top1'] == before


@pytest.mark.parametrize(
    'wrong, sentence',
    [
        (('--epochs', 1), 'mmbam demo: epochs must be at least 2'),
        (('--patches', 4, 4), 'mmbam demo: patches must be two numbers'),
        (
            ('--patches', 32, 16),
            'mmbam demo: 32 patches to train on do not fill a batch',
        ),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, wrong, sentence):
    _, error = run_verb('demo', '--out', tmp_path, *wrong)
    assert str(error).startswith(str(sentence))
