"""The clustering plot shows mean and spread of every network."""

import cv2
import pytest
from matplotlib.axes import Axes

from mmbam.visualization.cluster_curves import draw_clustering

ONE = {
    20: dict(nmi=40.0, nmi_std=4.0, ari=20.0, ari_std=2.0),
    10: dict(nmi=50.0, nmi_std=5.0, ari=30.0, ari_std=3.0),
}
OTHER = {18: dict(nmi=60.0, nmi_std=6.0, ari=35.0, ari_std=1.0)}


def test_means_and_spreads_are_drawn_in_order_of_t(tmp_path, monkeypatch):
    drawn = []
    original = Axes.errorbar

    def errorbar(self, x, y, spread, **kwargs):
        drawn.append((kwargs['label'], x, y, spread))
        return original(self, x, y, spread, **kwargs)

    monkeypatch.setattr(Axes, 'errorbar', errorbar)
    draw_clustering({'BAM': ONE, 'random': OTHER}, tmp_path / 'c.png')
    assert drawn == [
        ('BAM', [10, 20], [50.0, 40.0], [5.0, 4.0]),
        ('random', [18], [60.0], [6.0]),
        ('BAM', [10, 20], [30.0, 20.0], [3.0, 2.0]),
        ('random', [18], [35.0], [1.0]),
    ]
    assert cv2.imread(str(tmp_path / 'c.png')) is not None


@pytest.mark.parametrize('scores', [{}, {'BAM': {}}])
def test_nothing_to_draw_is_refused(tmp_path, scores):
    with pytest.raises(ValueError, match='at least one network'):
        draw_clustering(scores, tmp_path / 'c.png')
