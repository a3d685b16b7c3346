"""Two ranks give the figures of one, for every evaluator, from one pair of ranks."""

import numpy as np
import pytest
import torch
from mmengine.dist import get_rank

from mmbam.evaluation import (
    cluster_scores,
    fit_logistic,
    knn_accuracy,
    knn_predict,
    logistic_probe,
    nearest,
    pair_similarities,
)
from mmbam.evaluation.nearest import near_duplicates
from tests.helpers.distributed import run_ranks
from tests.test_evaluation import (
    test_clustering,
    test_embed,
    test_features,
    test_knn,
    test_logistic,
    test_nearest,
    test_similarity,
)

CASES = [(7, False), (8, True), (1, False)]  # size of the data set, shuffled


def features():
    results = []
    for size, shuffle in CASES:
        data = test_features.loader(size, batch_size=2, shuffle=shuffle)
        whole, part = (
            test_features.extract(test_features.Mean(), data, gather=gather)
            for gather in (True, False)
        )
        results.append([(x[:, 0].tolist(), y.tolist()) for x, y in (whole, part)])
    return results


def knn():
    train, train_labels, test, test_labels = test_knn.made_features(num_train=31)
    whole = knn_predict(train, train_labels, test, k=10)
    # Unequal parts, one smaller than k.
    part = slice(0, 5) if get_rank() == 0 else slice(5, None)
    own = train[part], train_labels[part]
    parts = knn_predict(*own, test, k=10, sharded=True)
    accuracy = knn_accuracy(*own, test, test_labels, k=10, sharded=True)
    return whole.tolist(), parts.tolist(), accuracy


def logistic():
    train, val, test = test_logistic.made(sizes=(121, 61, 90))
    probe = logistic_probe(train, val, test, [0.1, 1.0, 10.0])
    return fit_logistic(*train, 1.0, tol=1e-5).numpy(), probe


def clustering():
    return cluster_scores(*test_clustering.made(), num_classes=[2, 4], draws=3)


def similarity():
    z = test_similarity.made()
    return pair_similarities(z[:, :2] if get_rank() == 0 else z[:, 2:])


def duplicates():
    nearest.ROWS = nearest._COLUMNS = 7
    alike, pairs, total = near_duplicates(test_nearest.made(), 0.95, 9)
    none = near_duplicates(torch.eye(20), 0.5, 10)[2]
    return alike.tolist(), pairs.tolist(), total, none


def evaluate_all(folder):
    evaluators = features, knn, logistic, clustering, similarity, duplicates
    results = {evaluator.__name__: evaluator() for evaluator in evaluators}
    results['embed'] = test_embed.run(folder / 'a.npz', tokens=True).read_bytes()
    return results


@pytest.fixture(scope='module')
def ranks(tmp_path_factory):
    return run_ranks(evaluate_all, 2, tmp_path_factory.mktemp('ranks'))


def test_features_have_each_sample_once_in_whole_and_in_parts(ranks):
    for (size, _), *each in zip(CASES, *(r['features'] for r in ranks)):
        for whole, (part, part_labels) in each:
            assert whole == (list(range(size)), [2 * i for i in range(size)])
            assert part_labels == [2 * i for i in part]
        assert sorted(each[0][1][0] + each[1][1][0]) == list(range(size))


def test_nearest_neighbours(ranks):
    data = test_knn.made_features(num_train=31)
    expected = knn_predict(*data[:3], k=10).tolist()
    for result in ranks:
        assert result['knn'] == (expected, expected, knn_accuracy(*data, k=10))


def test_logistic_regression(ranks):
    expected, probe = logistic()
    for result in ranks:
        weights, rank_probe = result['logistic']
        np.testing.assert_allclose(weights, expected, atol=1e-3)
        assert rank_probe == probe


def test_clustering_scores(ranks):
    assert [result['clustering'] for result in ranks] == [clustering()] * 2


def test_similarities_of_pairs(ranks):
    expected = pair_similarities(test_similarity.made())
    for result in ranks:
        assert result['similarity'] == pytest.approx(expected)


def test_near_duplicates(ranks, monkeypatch):
    for name in ('ROWS', '_COLUMNS'):
        monkeypatch.setattr(nearest, name, 7)
    assert [result['duplicates'] for result in ranks] == [duplicates()] * 2


def test_files_of_embeddings(ranks, tmp_path):
    expected = test_embed.run(tmp_path / 'a.npz', tokens=True).read_bytes()
    assert [result['embed'] for result in ranks] == [expected] * 2
