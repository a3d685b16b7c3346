"""`mmbam transfer`, `cluster` and `split`: run end to end, figures asserted."""

import json

import numpy as np
import pytest
import sklearn.cluster
from sklearn.linear_model import LogisticRegression

from mmbam.evaluation.logistic import L2_VALUES
from tests.helpers.folders import make_config, make_folders, slow_features
from tests.helpers.run import run_verb
from tests.test_evaluation.test_clustering import slow_ari


@pytest.fixture
def made(tmp_path):
    make_folders(tmp_path, train=16, test=10)
    return tmp_path, *make_config(tmp_path)


def test_transfer_prints_what_scikit_learn_gives(made):
    root, config, weights, backbone = made
    # The folder's own test images validate, so that no random split is in the way.
    (root / 'val').symlink_to(root / 'test')
    out = root / 'rows.json'
    printed, error = run_verb(
        *('transfer', config, weights, f'mine={root}', '--size', 16),
        *('--num-workers', 0, '--out', out),
    )
    assert error is None
    row = json.loads(out.read_text())['mine']
    assert len(row['val_top1']) == len(L2_VALUES) == 45
    (x, y), test = (slow_features(backbone, root / s) for s in ('train', 'test'))
    for l2 in (1e5, 1.0):
        nearest = min(row['val_top1'], key=lambda v, l2=l2: abs(np.log(float(v) / l2)))
        expected = LogisticRegression(C=1 / float(nearest), tol=1e-8, max_iter=10000)
        score = 100 * expected.fit(x, y).score(*test)
        assert row['val_top1'][nearest] == pytest.approx(score)
    both = np.concatenate([x, test[0]]), np.concatenate([y, test[1]])
    final = LogisticRegression(C=1 / row['l2'], tol=1e-6, max_iter=10000).fit(*both)
    assert row['top1'] == pytest.approx(100 * final.score(*test), abs=4)
    line = next(line for line in printed.splitlines() if 'mine' in line)
    figures = f'{row["top1"]:.2f}', f'{row["mean_per_class"]:.2f}', f'{row["l2"]:.1e}'
    assert [cell.strip() for cell in line.split('│')[1:-1]] == ['mine', *figures]


def test_cluster_prints_the_scores_of_the_definitions(made, monkeypatch):
    root, config, weights, backbone = made
    out = root / 'scores.json'
    seen = []

    class Seen(sklearn.cluster.KMeans):
        def fit_predict(self, x, y=None):
            clusters = super().fit_predict(x)
            seen.append((x, clusters))
            return clusters

    monkeypatch.setattr(sklearn.cluster, 'KMeans', Seen)
    printed, error = run_verb(
        *('cluster', config, weights, '--draws', 3, '--num-workers', 0),
        *('--out', out),
    )
    assert error is None
    features, labels = slow_features(backbone, root / 'test')
    assert len(seen) == 3
    for x, _ in seen:  # all three classes are drawn each time
        np.testing.assert_allclose(x, features, atol=1e-5)
    aris = [slow_ari(labels.tolist(), clusters.tolist()) for _, clusters in seen]
    scores = json.loads(out.read_text())['3']
    assert scores['ari'] == pytest.approx(np.mean(aris))
    assert f'{np.mean(aris):.2f} ± {np.std(aris):.2f}' in printed


def test_make_split_writes_a_part_and_the_rest(made):
    root = made[0]
    printed, error = run_verb(
        *('split', root / 'train', root / 'a.txt', '--per-class', 2),
        *('--rest', root / 'b.txt'),
    )
    assert error is None and 'Wrote 6 of 48 images' in printed
    part, rest = ((root / n).read_text().splitlines() for n in ('a.txt', 'b.txt'))
    assert [line.split()[1] for line in part] == ['0', '0', '1', '1', '2', '2']
    names = {line.split()[0] for line in part + rest}
    assert names == {
        str(p.relative_to(root / 'train')) for p in root.glob('train/*/*.png')
    }


@pytest.mark.parametrize(
    'command, sentence',
    [
        (
            ['split', '{root}/train', 'a.txt', '--per-class=17'],
            'class 0 has 16',
        ),
        (['split', '{root}/gone', 'a.txt', '--fraction=.1'], 'no folder'),
        (['transfer', '{cfg}', '{ckpt}', 'mine'], 'NAME=ROOT'),
        (['transfer', '{cfg}', '{ckpt}', 'pets=gone'], 'pets: there is no folder'),
        (['cluster', '{cfg}', '{ckpt}', '--num-classes=10'], 'one is 10'),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(made, command, sentence):
    root, config, weights, _ = made
    tool, *args = (a.format(root=root, cfg=config, ckpt=weights) for a in command)
    if tool != 'split':
        args += ['--num-workers=0']
    _, error = run_verb(tool, *args)
    assert sentence in error
